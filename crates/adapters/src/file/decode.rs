//! From bytes to text, or to the name of what they are instead.
//!
//! Without a declared encoding a byte order mark decides, then UTF-8, then GB18030 where what comes out
//! looks like Chinese; everything else is binary and announced as such rather than dumped.

use encoding_rs::{Encoding, GB18030, UTF_8, UTF_16BE, UTF_16LE};

/// What bytes turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// Text, and the name of its encoding.
    Text(String, &'static str),
    /// No text; the media type as recognised.
    Binary(&'static str),
}

/// Decodes bytes. With a declared encoding, text it is: `None` when it is not valid in it.
pub(super) fn decode(bytes: &[u8], declared: Option<&'static Encoding>) -> Option<Decoded> {
    let whole = |encoding: &'static Encoding, bytes: &[u8]| {
        let (text, has_errors) = encoding.decode_without_bom_handling(bytes);
        (!has_errors).then(|| text.into_owned())
    };
    if let Some(encoding) = declared {
        let body = match Encoding::for_bom(bytes) {
            Some((marked, length)) if marked == encoding => bytes.get(length..).unwrap_or_default(),
            _ => bytes,
        };
        return whole(encoding, body).map(|text| Decoded::Text(text, encoding.name()));
    }
    if let Some((encoding, length)) = Encoding::for_bom(bytes) {
        let text = whole(encoding, bytes.get(length..).unwrap_or_default()).filter(|text| reads_as_text(text));
        return Some(
            text.map_or_else(|| Decoded::Binary(media_type(bytes)), |text| Decoded::Text(text, encoding.name())),
        );
    }
    if bytes.starts_with(b"%PDF-") {
        // Often valid UTF-8 for pages, and never worth reading as it stands.
        return Some(Decoded::Binary("application/pdf"));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(if reads_as_text(text) {
            Decoded::Text(text.to_owned(), UTF_8.name())
        } else {
            Decoded::Binary(media_type(bytes))
        });
    }
    let chinese = whole(GB18030, bytes).filter(|text| reads_as_text(text) && reads_as_chinese(text));
    Some(chinese.map_or_else(|| Decoded::Binary(media_type(bytes)), |text| Decoded::Text(text, GB18030.name())))
}

/// Whether text in this encoding can be written as well as read.
pub(super) fn can_encode(encoding: &'static Encoding) -> bool {
    encoding != UTF_16LE && encoding != UTF_16BE && encoding.output_encoding() == encoding
}

/// No NUL, and hardly another control character: colours in a log are fine, machine code is not.
fn reads_as_text(text: &str) -> bool {
    let (mut characters, mut controls) = (0usize, 0usize);
    for c in text.chars() {
        characters += 1;
        match c {
            '\0' => return false,
            '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}' => {}
            c if c.is_control() => controls += 1,
            _ => {}
        }
    }
    controls * 100 <= characters
}

/// Any bytes pair up into *some* GB18030 text; Chinese writing is mostly common characters and marks.
fn reads_as_chinese(text: &str) -> bool {
    let (mut foreign, mut common) = (0usize, 0usize);
    for c in text.chars().filter(|c| !c.is_ascii()) {
        foreign += 1;
        common += usize::from(matches!(c,
            '\u{4e00}'..='\u{9fff}' | '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' | '\u{2010}'..='\u{2026}' | '·' | '×' | '℃'));
    }
    foreign > 0 && common * 10 >= foreign * 9
}

/// The media type by the first bytes.
fn media_type(bytes: &[u8]) -> &'static str {
    const KNOWN: [(&[u8], &str); 22] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"PK\x05\x06", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
        (b"BZh", "application/x-bzip2"),
        (b"\xfd7zXZ\0", "application/x-xz"),
        (b"\x28\xb5\x2f\xfd", "application/zstd"),
        (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
        (b"\x7fELF", "application/x-elf"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
        (b"OggS", "audio/ogg"),
        (b"ID3", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
        (b"BM", "image/bmp"),
        (b"\0asm", "application/wasm"),
        (b"\x1a\x45\xdf\xa3", "video/webm"),
    ];
    let inner = bytes.get(8..12);
    if bytes.starts_with(b"RIFF") {
        return match inner {
            Some(b"WEBP") => "image/webp",
            Some(b"WAVE") => "audio/wav",
            _ => "application/octet-stream",
        };
    }
    if bytes.get(4..8) == Some(b"ftyp") {
        return "video/mp4";
    }
    KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)).map_or("application/octet-stream", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> (String, &'static str) {
        match decode(bytes, None) {
            Some(Decoded::Text(text, encoding)) => (text, encoding),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn marks_utf8_and_gb18030_are_recognised() {
        assert_eq!(text("caf\u{e9} 订单".as_bytes()), ("café 订单".to_owned(), "UTF-8"));
        assert_eq!(text(b"\xef\xbb\xbfhi"), ("hi".to_owned(), "UTF-8"));
        assert_eq!(text(b"\xff\xfeh\0i\0"), ("hi".to_owned(), "UTF-16LE"));
        assert_eq!(text(b"\xfe\xff\x4e\x2d"), ("中".to_owned(), "UTF-16BE"));
        let (bytes, _, _) = GB18030.encode("退货政策：七天内可退，邮费自理。");
        assert_eq!(text(&bytes), ("退货政策：七天内可退，邮费自理。".to_owned(), "gb18030"));
        assert_eq!(text(b""), (String::new(), "UTF-8"));
    }

    #[test]
    fn what_is_no_text_is_named_by_its_first_bytes() {
        for (bytes, name) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
            (b"%PDF-1.7\n% plain", "application/pdf"),
            (b"PK\x03\x04\0\0", "application/zip"),
            (b"RIFF\0\0\0\0WEBP", "image/webp"),
            (b"\0\0\0\x18ftypmp42", "video/mp4"),
            (b"a\0b", "application/octet-stream"),
            (b"caf\xe9 au lait", "application/octet-stream"),
        ] {
            assert_eq!(decode(bytes, None), Some(Decoded::Binary(name)));
        }
    }

    #[test]
    fn noise_is_not_taken_for_chinese() {
        let mut state = 7u32;
        for _ in 0..200 {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .take(64)
            .collect();
            assert!(matches!(decode(&bytes, None), Some(Decoded::Binary(_))));
        }
    }

    #[test]
    fn a_declared_encoding_is_taken_at_its_word() {
        let latin = Encoding::for_label(b"windows-1252").unwrap();
        assert_eq!(decode(b"caf\xe9", Some(latin)), Some(Decoded::Text("café".to_owned(), "windows-1252")));
        assert_eq!(decode(b"caf\xe9", Some(UTF_8)), None);
        assert!(can_encode(latin) && can_encode(GB18030) && !can_encode(UTF_16LE));
    }
}
