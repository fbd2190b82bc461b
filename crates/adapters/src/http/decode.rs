//! From the bytes of an answer to text: unpacking under a cap, the media type, the character set.
//!
//! Nothing is guessed: a character set comes from the header, a byte order mark or an HTML `meta` tag,
//! else it is UTF-8; bytes that do not fit are an error, never replacement characters.

use std::io::Read;

use encoding_rs::Encoding;
use flate2::read::{MultiGzDecoder, ZlibDecoder};

/// Why packed bytes could not be unpacked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unpack {
    /// More bytes than the cap.
    TooLarge,
    /// Broken, or packed in a way that was not asked for.
    Broken(String),
}

/// Undoes a `content-encoding`; reads at most one byte more than `cap`, whatever the bytes promise.
pub(crate) fn unpack(bytes: Vec<u8>, encoding: Option<&str>, cap: u64) -> Result<Vec<u8>, Unpack> {
    let encoding = encoding.unwrap_or_default().trim().to_ascii_lowercase();
    if bytes.is_empty() || matches!(encoding.as_str(), "" | "identity") {
        return Ok(bytes);
    }
    match encoding.as_str() {
        "gzip" | "x-gzip" => read_capped(MultiGzDecoder::new(bytes.as_slice()), cap),
        "deflate" => read_capped(ZlibDecoder::new(bytes.as_slice()), cap),
        _ => Err(Unpack::Broken(format!("it is packed as `{encoding}`, which was not asked for"))),
    }
}

fn read_capped(reader: impl Read, cap: u64) -> Result<Vec<u8>, Unpack> {
    let mut out = Vec::new();
    match reader.take(cap.saturating_add(1)).read_to_end(&mut out) {
        Ok(read) if read as u64 > cap => Err(Unpack::TooLarge),
        Ok(_) => Ok(out),
        Err(error) => Err(Unpack::Broken(format!("it cannot be unpacked: {error}"))),
    }
}

/// A `content-type`, in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// `type/subtype` in lower case; empty where none was declared.
    pub(crate) essence: String,
    /// The declared character set.
    pub(crate) charset: Option<String>,
}

impl MediaType {
    pub(crate) fn parse(header: Option<&str>) -> Self {
        let mut pieces = header.unwrap_or_default().split(';');
        let essence = pieces.next().unwrap_or_default().trim().to_ascii_lowercase();
        let charset = pieces.find_map(|piece| {
            let (name, value) = piece.split_once('=')?;
            let value = value.trim().trim_matches(['"', '\'']);
            name.trim().eq_ignore_ascii_case("charset").then(|| value.to_owned())
        });
        Self { essence, charset }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.essence == "application/json" || self.essence == "text/json" || self.essence.ends_with("+json")
    }

    pub(crate) fn is_html(&self) -> bool {
        matches!(self.essence.as_str(), "text/html" | "application/xhtml+xml")
    }

    /// Whether the type is declared to be no text.
    pub(crate) fn is_binary(&self) -> bool {
        let essence = self.essence.as_str();
        if essence.ends_with("+xml") || essence.ends_with("+json") {
            return false;
        }
        ["image/", "audio/", "video/", "font/", "model/", "application/vnd.openxmlformats", "application/vnd.ms-"]
            .iter()
            .any(|prefix| essence.starts_with(prefix))
            || matches!(
                essence,
                "application/pdf"
                    | "application/octet-stream"
                    | "application/zip"
                    | "application/gzip"
                    | "application/x-gzip"
                    | "application/x-tar"
                    | "application/x-7z-compressed"
                    | "application/x-bzip2"
                    | "application/zstd"
                    | "application/msword"
                    | "application/wasm"
                    | "application/epub+zip"
                    | "application/x-protobuf"
                    | "application/vnd.sqlite3"
            )
    }
}

/// The media type that the first bytes show, for formats that are no text.
pub(crate) fn recognise(bytes: &[u8]) -> Option<&'static str> {
    const MARKS: &[(&[u8], &str)] = &[
        (b"%PDF-", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
        (b"\x7fELF", "application/octet-stream"),
    ];
    if let Some((_, media_type)) = MARKS.iter().find(|(mark, _)| bytes.starts_with(mark)) {
        return Some(media_type);
    }
    // Text in UTF-16 is full of zero bytes, and starts with its byte order mark.
    let marked = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    (!marked && bytes.iter().take(8192).any(|byte| *byte == 0)).then_some("application/octet-stream")
}

/// Decodes text; the error says what does not fit.
pub(crate) fn text(bytes: &[u8], media_type: &MediaType) -> Result<String, String> {
    let declared = match (&media_type.charset, media_type.is_html() || media_type.essence.is_empty()) {
        (Some(label), _) => Some(label.clone()),
        (None, true) => meta_charset(bytes),
        (None, false) => None,
    };
    let encoding = match declared.as_deref() {
        None => encoding_rs::UTF_8,
        Some(label) => match Encoding::for_label(label.as_bytes()) {
            Some(encoding) => encoding,
            None if std::str::from_utf8(bytes).is_ok() => encoding_rs::UTF_8,
            None => return Err(format!("its character set `{}` is not known", super::explain::clean(label))),
        },
    };
    let (text, used, broken) = encoding.decode(bytes);
    if broken {
        let name = used.name();
        return Err(match declared {
            Some(_) => format!("its bytes are not the {name} they claim to be"),
            None => format!("its bytes are not {name}, and it names no character set"),
        });
    }
    Ok(text.into_owned())
}

/// Decodes text for a person to read, whatever it takes. For explanations of failures only.
pub(crate) fn lossy(bytes: &[u8], media_type: &MediaType) -> String {
    text(bytes, media_type).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned())
}

/// The character set of `<meta charset=...>` or `<meta ... content="...; charset=...">` in the first
/// kilobyte of a page.
fn meta_charset(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    for (at, _) in head.match_indices("<meta") {
        let tag = &head[at..at + head[at..].find('>').unwrap_or(head.len() - at)];
        let Some((_, value)) = tag.split_once("charset") else { continue };
        let value = value.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = value.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | ':' | '.'));
        let label = &value[..end.unwrap_or(value.len())];
        // A page that can be read this far is not UTF-16, whatever it claims (as in the HTML standard).
        return Some(if label.starts_with("utf-16") { "utf-8".into() } else { label.to_owned() });
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn unpacking_stops_at_the_cap() {
        let bomb = gzip(&vec![b'0'; 10_000_000]);
        assert!(bomb.len() < 20_000);
        assert_eq!(unpack(bomb.clone(), Some("gzip"), 1_000_000), Err(Unpack::TooLarge));
        assert_eq!(unpack(bomb, Some("GZIP"), 10_000_000).unwrap().len(), 10_000_000);
        let mut half = gzip(b"some words that are packed");
        half.truncate(half.len() - 6);
        assert!(matches!(unpack(half, Some("gzip"), 1000), Err(Unpack::Broken(_))));
        assert!(matches!(unpack(b"x".to_vec(), Some("br"), 1000), Err(Unpack::Broken(_))));
    }

    #[test]
    fn a_character_set_comes_from_header_mark_or_meta_tag() {
        let (gbk, _, _) = encoding_rs::GBK.encode("杭州");
        let page = [b"<html><head><meta http-equiv=x content=\"text/html; charset=gb2312\"></head>", &*gbk].concat();
        assert!(text(&page, &MediaType::parse(Some("text/html"))).unwrap().ends_with("杭州"));
        assert_eq!(text(&gbk, &MediaType::parse(Some("text/plain; charset=\"GBK\""))).unwrap(), "杭州");
        assert!(text(&gbk, &MediaType::parse(Some("text/plain"))).is_err());
        let utf16 = [0xff, 0xfe, 0x6d, 0x67];
        assert_eq!(text(&utf16, &MediaType::parse(Some("text/plain"))).unwrap(), "杭");
        assert_eq!(text("\u{feff}a".as_bytes(), &MediaType::default()).unwrap(), "a");
    }

    #[test]
    fn what_is_no_text_is_recognised_by_type_or_by_its_bytes() {
        assert!(MediaType::parse(Some("Application/PDF; x=y")).is_binary());
        assert!(!MediaType::parse(Some("image/svg+xml")).is_binary());
        assert_eq!(recognise(b"%PDF-1.7 ..."), Some("application/pdf"));
        assert_eq!(recognise(b"a\0b"), Some("application/octet-stream"));
        assert_eq!(recognise("杭州".as_bytes()), None);
    }
}
