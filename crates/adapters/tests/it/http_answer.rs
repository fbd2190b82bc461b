//! What the `http` adapter makes of an answer: results, failures, phases.

use std::io::Write;
use std::time::Duration;

use reach_core::{Effect, Failure, FailureKind, Payload, Phase};
use reach_kit::http::{Behaviour, Reply, Server};
use serde_json::{Value, json};

use crate::http::{Tool, declare, declare_with};

/// A server that always answers this way, and a tool that reads from it; `more` are further keys.
async fn scene(behaviour: impl Into<Behaviour>, more: Value) -> (Server, Tool) {
    let server = Server::start().await.expect("a free port");
    server.always(behaviour);
    let mut http = json!({"url": server.url("/")});
    for (key, value) in more.as_object().unwrap() {
        http[key] = value.clone();
    }
    let tool = declare(http, json!({})).expect("a right declaration");
    (server, tool)
}

async fn failure(behaviour: impl Into<Behaviour>, more: Value) -> Failure {
    let (_server, tool) = scene(behaviour, more).await;
    tool.failure(json!({})).await
}

async fn payload(behaviour: impl Into<Behaviour>, more: Value) -> Payload {
    let (_server, tool) = scene(behaviour, more).await;
    tool.call(json!({})).await.expect("the call works").payload
}

fn is(failure: &Failure, kind: FailureKind, phase: Phase) {
    assert_eq!((failure.kind, failure.phase), (kind, phase), "{failure:?}");
}

#[tokio::test]
async fn case_h001_a_failing_status_carries_the_upstreams_own_words() {
    let body = r#"{"detail":[{"loc":["body","date"],"msg":"bad date"}]}"#;
    let rejected = failure(Reply::json(422, body), json!({})).await;
    is(&rejected, FailureKind::Rejected, Phase::Answered);
    assert_eq!(rejected.message, "the upstream answered 422 Unprocessable Entity: body.date: bad date");
    let broken = failure(Reply::json(500, r#"{"error":"boom"}"#), json!({})).await;
    is(&broken, FailureKind::ServerError, Phase::Answered);
    assert!(broken.message.ends_with(": boom"), "{}", broken.message);
}

#[tokio::test]
async fn case_h002_a_200_that_reports_a_failure_is_rejected_with_its_words() {
    for condition in ["errcode == 0", "errcode == `0`"] {
        let (server, tool) = scene(Reply::new(500, ""), json!({"success_when": condition})).await;
        server.next(Reply::json(200, r#"{"errcode":310000,"errmsg":"keywords not in content"}"#));
        server.next(Reply::json(200, r#"{"errcode":0,"errmsg":"ok"}"#));
        let first = tool.failure(json!({})).await;
        is(&first, FailureKind::Rejected, Phase::Answered);
        assert!(first.message.contains("310000") && first.message.contains("keywords not in content"), "{first:?}");
        assert_eq!(tool.json(json!({})).await, json!({"errcode": 0, "errmsg": "ok"}));
    }
}

#[tokio::test]
async fn case_h004_success_without_a_body_is_empty_and_no_error() {
    for reply in [Reply::new(204, ""), Reply::json(200, ""), Reply::json(200, " \n"), Reply::new(205, "")] {
        assert_eq!(payload(reply.clone(), json!({})).await, Payload::Empty);
        assert_eq!(payload(reply, json!({"pick": {"a": "/a"}})).await, Payload::Empty);
    }
    // Where success has to be shown, silence shows nothing.
    let silent = failure(Reply::new(204, ""), json!({"success_when": "ok"})).await;
    is(&silent, FailureKind::Malformed, Phase::Answered);
}

#[tokio::test]
async fn case_h005_the_character_set_is_the_declared_one() {
    let (gbk, _, _) = encoding_rs::GBK.encode("杭州天气晴");
    let page = [&b"<html><head><meta charset=\"gbk\"></head><body>"[..], &gbk, b"</body></html>"].concat();
    for (media_type, body) in [("text/plain; charset=gbk", gbk.to_vec()), ("text/html", page)] {
        for expect in ["text", "any"] {
            let reply = Reply::new(200, body.clone()).header("content-type", media_type);
            let Payload::Text(text) = payload(reply, json!({"expect": expect})).await else { panic!("no text") };
            assert!(text.contains("杭州天气晴") && !text.contains('\u{fffd}'), "{text}");
        }
    }
    let json_in_gbk = encoding_rs::GBK.encode(r#"{"天气":"晴"}"#).0.into_owned();
    let reply = Reply::new(200, json_in_gbk).header("content-type", "application/json; charset=GB18030");
    assert_eq!(payload(reply, json!({})).await, Payload::Json(json!({"天气": "晴"})));
    let undeclared = Reply::new(200, gbk.to_vec()).header("content-type", "text/plain");
    is(&failure(undeclared, json!({"expect": "text"})).await, FailureKind::Malformed, Phase::Answered);
}

#[tokio::test]
async fn case_h012_a_body_with_nan_is_an_error_that_names_it() {
    let told = failure(Reply::json(200, r#"{"count": 0, "mean": NaN, "max": Infinity}"#), json!({})).await;
    is(&told, FailureKind::Malformed, Phase::Answered);
    assert!(told.message.contains("NaN"), "{}", told.message);
}

#[tokio::test]
async fn case_c006_what_is_no_text_is_handed_on_as_bytes_with_its_type() {
    let pdf = b"%PDF-1.7\n\x00\xff\xfe".to_vec();
    let reply = Reply::new(200, pdf.clone()).header("content-type", "application/pdf");
    let wanted = Payload::Binary { media_type: "application/pdf".into(), bytes: pdf.clone() };
    assert_eq!(payload(reply.clone(), json!({})).await, wanted);
    assert_eq!(payload(reply.clone(), json!({"expect": "any"})).await, wanted);
    // Whoever insists on JSON or text gets a failure instead of bytes.
    for more in [json!({"expect": "json"}), json!({"expect": "text"}), json!({"pick": {"a": "/a"}})] {
        is(&failure(reply.clone(), more).await, FailureKind::Malformed, Phase::Answered);
    }
    let lying = Reply::new(200, pdf).header("content-type", "text/plain");
    let kept = payload(lying, json!({"expect": "any"})).await;
    assert!(matches!(kept, Payload::Binary { bytes, .. } if bytes.len() == 12));
}

#[tokio::test]
async fn html_where_json_is_expected_is_a_fault_told_by_its_title() {
    let page = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>secret words</body></html>";
    for media_type in ["text/html; charset=utf-8", "application/json"] {
        let told = failure(Reply::new(200, page).header("content-type", media_type), json!({})).await;
        is(&told, FailureKind::Malformed, Phase::Answered);
        assert!(told.message.contains("Sign in") && !told.message.contains("secret words"), "{}", told.message);
    }
    // JSON that calls itself HTML is still JSON.
    let mislabelled = Reply::new(200, r#"{"a":1}"#).header("content-type", "text/html");
    assert_eq!(payload(mislabelled, json!({})).await, Payload::Json(json!({"a": 1})));
}

#[tokio::test]
async fn expect_decides_what_the_same_answer_becomes() {
    let reply = Reply::json(200, r#"{"a": 1}"#);
    assert_eq!(payload(reply.clone(), json!({"expect": "text"})).await, Payload::Text(r#"{"a": 1}"#.into()));
    assert_eq!(payload(reply.clone(), json!({"expect": "any"})).await, Payload::Json(json!({"a": 1})));
    let csv = Reply::new(200, "a,b\n1,2\n").header("content-type", "text/csv");
    assert_eq!(payload(csv.clone(), json!({"expect": "any"})).await, Payload::Text("a,b\n1,2\n".into()));
    is(&failure(csv, json!({})).await, FailureKind::Malformed, Phase::Answered);
    let bare = Reply::new(200, "[1]");
    assert_eq!(payload(bare, json!({"expect": "any"})).await, Payload::Json(json!([1])));
}

#[tokio::test]
async fn pick_and_select_keep_parts_of_the_answer() {
    let body =
        r#"{"order":{"status":"shipped","eta":null,"lines":[{"sku":"A1","n":2},{"sku":"B2","n":9007199254740993}]}}"#;
    let pick =
        json!({"pick": {"status": "/order/status", "eta": "/order/eta", "second": "/order/lines/1/n", "none": "/x"}});
    let (_server, tool) = scene(Reply::json(200, body), pick).await;
    let answer = tool.call(json!({})).await.unwrap();
    let Payload::Json(picked) = answer.payload else { panic!("no JSON") };
    assert_eq!(picked, json!({"eta": null, "second": 9_007_199_254_740_993_i64, "status": "shipped"}));
    assert!(answer.notes.iter().any(|note| note.contains("/x")), "{:?}", answer.notes);

    let select = json!({"select": "order.lines[?n > 2].{sku: sku}"});
    assert_eq!(payload(Reply::json(200, body), select).await, Payload::Json(json!([{"sku": "B2"}])));
    let nothing = failure(Reply::json(200, body), json!({"pick": {"a": "/data/a", "b": "/data/b"}})).await;
    is(&nothing, FailureKind::Malformed, Phase::Answered);
    assert!(nothing.message.contains("/data/a"), "{}", nothing.message);
}

#[tokio::test]
async fn big_integers_of_an_answer_keep_every_digit() {
    let body = r#"{"a":9007199254740993,"b":18446744073709551615,"c":-9223372036854775808}"#;
    let Payload::Json(value) = payload(Reply::json(200, body), json!({})).await else { panic!("no JSON") };
    assert_eq!(value.to_string(), body);
    // What no number can hold is text with all its digits.
    let body = Reply::json(200, r#"{"d":123456789012345678901234567890}"#);
    assert_eq!(payload(body, json!({})).await, Payload::Json(json!({"d": "123456789012345678901234567890"})));
}

#[tokio::test]
async fn each_status_is_its_own_kind_of_failure() {
    for (status, kind) in [
        (400, FailureKind::Rejected),
        (401, FailureKind::Unauthorised),
        (403, FailureKind::Unauthorised),
        (404, FailureKind::NotFound),
        (409, FailureKind::Rejected),
        (410, FailureKind::NotFound),
        (429, FailureKind::Throttled),
        (500, FailureKind::ServerError),
        (502, FailureKind::ServerError),
        (503, FailureKind::ServerError),
        (504, FailureKind::ServerError),
    ] {
        is(&failure(Reply::new(status, "no"), json!({})).await, kind, Phase::Answered);
    }
}

#[tokio::test]
async fn the_wait_that_the_upstream_asks_for_is_handed_on() {
    for (status, kind) in [(429, FailureKind::Throttled), (503, FailureKind::Unavailable)] {
        let told = failure(Reply::new(status, "").header("retry-after", "7"), json!({})).await;
        is(&told, kind, Phase::Answered);
        assert_eq!(told.retry_after, Some(Duration::from_secs(7)));
        let date = Reply::new(status, "")
            .header("date", "Wed, 21 Oct 2026 07:28:00 GMT")
            .header("retry-after", "Wed, 21 Oct 2026 07:28:05 GMT");
        assert_eq!(failure(date, json!({})).await.retry_after, Some(Duration::from_secs(5)));
    }
}

#[tokio::test]
async fn an_explanation_is_clipped_cleaned_and_never_waited_for_long() {
    let long = failure(Reply::new(400, "\u{1b}[31mno\u{202e} ".repeat(1_000)), json!({})).await;
    assert!(long.message.chars().count() < 600);
    assert!(!long.message.chars().any(|c| c.is_control() || c == '\u{202e}'), "{}", long.message);
    let head = b"HTTP/1.1 422 No\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nsku is unknown";
    let cut = failure(Behaviour::Raw(head.to_vec()), json!({})).await;
    is(&cut, FailureKind::Rejected, Phase::Answered);
    assert!(cut.message.contains("sku is unknown"), "{}", cut.message);
    let stalled = failure(Behaviour::RawThenStall(head.to_vec()), json!({})).await;
    is(&stalled, FailureKind::Rejected, Phase::Answered);
    let page = "<html><head><title>502 Bad Gateway</title></head><body>nginx/1.2.3</body></html>";
    let told = failure(Reply::new(502, page).header("content-type", "text/html"), json!({})).await;
    assert_eq!(told.message, "the upstream answered 502 Bad Gateway: 502 Bad Gateway");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn compressed_answers_are_unpacked_under_the_cap() {
    let packed = |body: &[u8]| Reply::json(200, gzip(body)).header("content-encoding", "gzip");
    let (server, tool) = scene(packed(br#"{"a":"b"}"#), json!({})).await;
    assert_eq!(tool.json(json!({})).await, json!({"a": "b"}));
    assert_eq!(server.last().unwrap().header("accept-encoding"), Some("gzip"));

    let bomb = packed(&[&b"\""[..], &vec![b'0'; 50_000_000], b"\""].concat());
    assert!(bomb.body.len() < 100_000);
    is(&failure(bomb, json!({})).await, FailureKind::Oversize, Phase::Answered);
    let broken = Reply::json(200, "this is not packed").header("content-encoding", "gzip");
    is(&failure(broken, json!({})).await, FailureKind::Malformed, Phase::Answered);
    let explained = Reply::json(422, gzip(br#"{"error":"no stock"}"#)).header("content-encoding", "gzip");
    assert!(failure(explained, json!({})).await.message.ends_with("no stock"));
}

#[tokio::test]
async fn the_cap_holds_with_and_without_a_declared_length() {
    let cap = json!({"max_response_bytes": 1000, "expect": "text"});
    let exact = Reply::new(200, "x".repeat(1000));
    assert_eq!(payload(exact, cap.clone()).await, Payload::Text("x".repeat(1000)));
    is(&failure(Reply::new(200, "x".repeat(1001)), cap.clone()).await, FailureKind::Oversize, Phase::Answered);
    is(&failure(Behaviour::Flood, cap).await, FailureKind::Oversize, Phase::Answered);
}

#[tokio::test]
async fn an_answer_that_breaks_off_may_have_been_sent() {
    for raw in [
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"a\":1}",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\ncontent-",
        "",
    ] {
        let told = failure(Behaviour::Raw(raw.as_bytes().to_vec()), json!({})).await;
        is(&told, FailureKind::Interrupted, Phase::MaybeSent);
    }
    is(&failure(Behaviour::Close, json!({})).await, FailureKind::Interrupted, Phase::MaybeSent);
    is(&failure(Behaviour::Reset, json!({})).await, FailureKind::Interrupted, Phase::MaybeSent);
    let garbage = failure(Behaviour::Raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec()), json!({})).await;
    is(&garbage, FailureKind::Malformed, Phase::Answered);
}

#[tokio::test]
async fn a_request_is_never_repeated_by_itself() {
    for behaviour in [Behaviour::Reset, Behaviour::Close, Reply::new(503, "").into(), Reply::new(408, "").into()] {
        let (server, tool) = scene(behaviour.clone(), json!({"method": "POST"})).await;
        tool.failure(json!({})).await;
        // The second call uses the connection of the first where it still stands.
        tool.failure(json!({})).await;
        assert_eq!(server.requests().len(), 2, "{behaviour:?}");
    }
}

#[tokio::test]
async fn a_body_that_trickles_ends_at_the_deadline() {
    let slow = Behaviour::Slow { reply: Reply::json(200, "[1,2,3,4,5]"), piece: 1, pause: Duration::from_millis(100) };
    let (server, tool) = scene(slow, json!({"method": "POST"})).await;
    let mut attempt = tool.attempt(json!({}));
    attempt.timeout = Duration::from_millis(350);
    let told = tool.adapter.call(&attempt).await.unwrap_err();
    is(&told, FailureKind::Timeout, Phase::MaybeSent);
    tokio::time::timeout(Duration::from_secs(5), server.gone()).await.expect("the connection is closed");
    attempt.timeout = Duration::from_secs(10);
    assert!(tool.adapter.call(&attempt).await.is_ok(), "a slow answer in time is an answer");
}

#[tokio::test]
async fn a_connection_that_never_stands_is_known_as_not_sent_before_the_deadline() {
    // A full accept queue: the kernel drops further handshakes, so that connecting stalls.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(stream);
        assert!(waiting.len() < 100, "the queue fills up");
    }
    for (more, timeout, within) in [(json!({}), 600, 500), (json!({"connect_timeout_ms": 150}), 10_000, 2_000)] {
        let mut http = json!({"method": "POST", "url": format!("http://{address}/")});
        for (key, value) in more.as_object().unwrap() {
            http[key] = value.clone();
        }
        let timeout = Duration::from_millis(timeout);
        let tool = declare_with(http, json!({}), Some(Effect::Write), timeout).unwrap();
        let mut attempt = tool.attempt(json!({}));
        attempt.timeout = timeout;
        let call = tokio::time::timeout(Duration::from_millis(within), tool.adapter.call(&attempt));
        let told = call.await.expect("ends before the deadline").unwrap_err();
        is(&told, FailureKind::Unreachable, Phase::NotSent);
        assert!(told.message.contains(" ms"), "{}", told.message);
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_not_sent() {
    let tool = declare(json!({"method": "POST", "url": "http://no-such-host.invalid/"}), json!({})).unwrap();
    let told = tool.failure(json!({})).await;
    is(&told, FailureKind::Unreachable, Phase::NotSent);
    assert!(told.message.contains("resolved"), "{}", told.message);
}

#[tokio::test]
async fn a_broken_handshake_and_an_unknown_certificate_are_not_sent() {
    for (own_certificate, wanted) in [(false, "TLS handshake failed"), (true, "certificate is not accepted")] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let accepting = tokio::spawn(async move {
            let stream = listener.accept().await.unwrap().0.into_std().unwrap();
            tokio::task::spawn_blocking(move || speak(stream, own_certificate)).await.unwrap()
        });
        let tool = declare(json!({"method": "POST", "url": url}), json!({})).unwrap();
        let told = tool.failure(json!({})).await;
        is(&told, FailureKind::Unreachable, Phase::NotSent);
        assert!(told.message.contains(wanted), "{}: {:?}", told.message, told.detail);
        assert_eq!(accepting.await.unwrap(), 0, "no byte of the request was sent");
    }
}

/// Answers a handshake with plain words, or with a certificate that nobody vouches for; returns how many
/// bytes of a request came through.
fn speak(mut stream: std::net::TcpStream, own_certificate: bool) -> usize {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::io::Read;

    stream.set_nonblocking(false).unwrap();
    if !own_certificate {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        return 0;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites/tls");
    let certificate = CertificateDer::from_pem_file(folder.join("unknown.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("unknown.key")).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let mut connection = rustls::ServerConnection::new(std::sync::Arc::new(config)).unwrap();
    let mut request = Vec::new();
    let _ = rustls::Stream::new(&mut connection, &mut stream).read_to_end(&mut request);
    request.len()
}
