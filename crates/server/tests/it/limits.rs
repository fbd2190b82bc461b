//! Slow, large and many: nobody holds a place for ever.

use std::time::Duration;

use reach_server::{Callers, Settings};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::house::{House, Said};

const SOON: Duration = Duration::from_secs(5);

async fn short(settings: Settings) -> House {
    House::with(settings, Callers::default()).await
}

/// Everything the server sends until it closes the connection.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is a close, too.
    let _ = timeout(SOON, stream.read_to_end(&mut bytes)).await.expect("the server did not close");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_headers_is_cut() {
    let house = short(Settings { header_timeout: Duration::from_millis(150), ..Settings::default() }).await;
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let started = Instant::now();
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let said = until_closed(&mut stream).await;
        assert!(!said.contains("200"), "{beginning:?}: {said}");
        assert!(started.elapsed() >= Duration::from_millis(140), "{beginning:?}");
    }
}

#[tokio::test]
async fn dripping_headers_do_not_buy_time() {
    let house = short(Settings { header_timeout: Duration::from_millis(200), ..Settings::default() }).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let dripping = async {
        while stream.write_all(b"X-A: b\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, dripping).await.expect("the server kept reading");
}

#[tokio::test]
async fn a_kept_connection_is_closed_when_idle() {
    let house = short(Settings { idle_timeout: Duration::from_millis(150), ..Settings::default() }).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", house.address);
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(until_closed(&mut stream).await.contains("200 OK"));
}

#[tokio::test]
async fn a_body_that_drips_is_cut_with_408_in_the_shape_of_an_envelope() {
    let house = short(Settings { body_timeout: Duration::from_millis(150), ..Settings::default() }).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let head = format!(
        "POST /v1/tools/echo/calls HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        house.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let said = until_closed(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 408"), "{said}");
    assert!(said.contains(r#""code":"INVALID_ARGUMENTS""#) && said.contains(r#""retryable":true"#), "{said}");
    assert_eq!(house.seen.started(), 0);
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_whether_it_says_so_or_not() {
    let house = short(Settings { max_body_bytes: 1000, ..Settings::default() }).await;
    let body = json!({"arguments": {"text": "x".repeat(2000)}}).to_string();
    for path in ["/v1/tools/echo/calls", "/mcp"] {
        let post = || house.http.post(house.url(path)).header("content-type", "application/json");
        let said = Said::of(post().body(body.clone())).await;
        assert_eq!((said.status, said.code()), (413, "INVALID_ARGUMENTS"), "{path}");
    }
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let head = format!(
        "POST /v1/tools/echo/calls HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        house.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(until_closed(&mut stream).await.starts_with("HTTP/1.1 413"));
    let fits = house.call("", "echo", json!({"text": "x".repeat(900)})).await;
    assert_eq!(fits.status, 200);
    assert_eq!(house.seen.started(), 1);
}

#[tokio::test]
async fn connections_over_the_cap_wait_for_a_place() {
    let settings = Settings { max_connections: 2, ..Settings::default() };
    let house = short(settings).await;
    let first = TcpStream::connect(house.address).await.unwrap();
    let _second = TcpStream::connect(house.address).await.unwrap();
    let mut third = TcpStream::connect(house.address).await.unwrap();
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", house.address);
    third.write_all(request.as_bytes()).await.unwrap();
    let mut byte = [0];
    assert!(timeout(Duration::from_millis(200), third.read(&mut byte)).await.is_err(), "served beyond the cap");
    drop(first);
    assert!(until_closed(&mut third).await.contains("200 OK"));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_cut() {
    let settings = Settings { write_timeout: Duration::from_millis(200), max_connections: 1, ..Settings::default() };
    let house = short(settings).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    let request = format!("GET /openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n", house.address).repeat(50);
    let flood = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(SOON, flood).await.expect("the server waits for ever");
    assert_eq!(house.get("", "/healthz").await.status, 200, "its place is free again");
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_over_http_2_is_cut() {
    let (blink, never) = (Duration::from_millis(200), Duration::from_secs(3600));
    // With a closed window the answer is not even begun; with a small one its rest stays in a buffer.
    for (window, write_timeout, idle_timeout) in [(0, blink, never), (100, never, blink)] {
        let house = short(Settings { write_timeout, idle_timeout, max_connections: 1, ..Settings::default() }).await;
        let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge();
        let http = http.http2_initial_stream_window_size(window).build().unwrap();
        let unread = http.get(house.url("/openapi.json")).send().await.unwrap();
        assert_eq!(unread.status().as_u16(), 200);
        assert_eq!(house.get("", "/healthz").await.status, 200, "its place is free again");
        drop(unread);
    }
}

#[tokio::test]
async fn a_call_may_take_longer_than_any_timeout_of_its_connection() {
    let blink = Duration::from_millis(50);
    let settings = Settings { header_timeout: blink, idle_timeout: blink, write_timeout: blink, ..Settings::default() };
    let house = short(settings).await;
    let request = house.http.post(house.url("/v1/tools/wait/calls")).json(&json!({}));
    let call = tokio::spawn(async move { Said::of(request).await });
    crate::house::eventually("the call began", async || house.seen.started() == 1).await;
    tokio::time::sleep(blink * 6).await;
    house.seen.release.notify_one();
    assert_eq!(call.await.unwrap().status, 200);
}

#[tokio::test]
async fn http_2_is_spoken_too() {
    let house = House::local().await;
    let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let response = http.post(house.url("/v1/tools/echo/calls")).json(&json!({})).send().await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (reqwest::Version::HTTP_2, 200));
}
