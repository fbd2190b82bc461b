//! The other programs of the measurements, started from this same binary: the upstream that answers what
//! it was sent, and the bare proxy that the gateway is compared with.
//!
//! Each prints its address on standard output and ends when its standard input does, so that none
//! outlives the measurement.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// `POST /orders` answers the body it got; `POST /stall` never answers; `GET /stalled` says how many wait.
pub(crate) async fn upstream() -> anyhow::Result<()> {
    let stalled = Arc::new(AtomicU64::new(0));
    let router = Router::new()
        .route("/orders", post(|body: Bytes| async move { json(body) }))
        .route("/stall", post(stall))
        .route(
            "/stalled",
            get(|State(stalled): State<Arc<AtomicU64>>| async move { stalled.load(Ordering::SeqCst).to_string() }),
        )
        .with_state(stalled);
    serve(router).await
}

async fn stall(State(stalled): State<Arc<AtomicU64>>, _body: Bytes) {
    stalled.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

/// Forwards every POST to the upstream as it is and answers what comes back: no parsing, no checks, no log.
pub(crate) async fn proxy(upstream: SocketAddr) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let url = format!("http://{upstream}/orders");
    let forward = async |State((client, url)): State<(reqwest::Client, String)>, body: Bytes| -> Response {
        let request = client.post(url).header(header::CONTENT_TYPE, "application/json").body(body);
        let answered = async { request.send().await?.error_for_status()?.bytes().await };
        match answered.await {
            Ok(body) => json(body).into_response(),
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        }
    };
    serve(Router::new().route("/orders", post(forward)).with_state((client, url))).await
}

fn json(body: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], body)
}

async fn serve(router: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    // Small answers must not wait for each other on either side of the comparison.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::select! {
        served = axum::serve(listener, router) => served?,
        _ = parent_left() => {}
    }
    // Calls that stall for ever would keep an orderly end waiting.
    std::process::exit(0)
}

async fn parent_left() {
    drop(tokio::io::stdin().read_to_end(&mut Vec::new()).await);
}
