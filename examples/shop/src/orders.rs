//! The order service: HTTP on loopback, as an order system speaks it, with a switch for its health.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /v1/orders/{id}` | one order with its lines and history |
//! | `GET /v1/orders` | all of them: too long to show a model |
//! | `POST /v1/orders/{id}/refunds` | pays money back, once per `Idempotency-Key` |
//! | `GET /v2/orders/{id}` | the stand-in: state and day of arrival only |
//!
//! The stand-in also listens on a port of its own, [`Orders::stand_in_url`], where it never fails; beside
//! it, `POST /control {"mode": "ok" | "slow" | "error" | "down"}` does what [`Orders::set_mode`] does.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How the service feels. The stand-in on its own port always feels well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It works.
    #[default]
    Ok,
    /// `/v1` answers after ten seconds.
    Slow,
    /// `/v1` answers 500.
    Error,
    /// Nobody listens.
    Down,
}

/// Money paid back.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refund {
    /// `RF0001`, counted up.
    pub refund_id: String,
    /// The order it belongs to.
    pub order_id: String,
    /// What the caller asked for.
    pub amount: Value,
    /// Why, in the caller's words.
    pub reason: String,
}

/// A running order service; it stops when this is dropped.
pub struct Orders {
    shop: Arc<Shop>,
    stand_in: SocketAddr,
    stop: CancellationToken,
}

#[derive(Default)]
struct Shop {
    mode: Mutex<Mode>,
    refunds: Mutex<Refunds>,
    port: Mutex<u16>,
    listening: tokio::sync::Mutex<Option<(CancellationToken, JoinHandle<()>)>>,
}

#[derive(Default)]
struct Refunds {
    paid: Vec<Refund>,
    by_key: HashMap<String, Refund>,
}

impl Orders {
    /// Starts on a port of 127.0.0.1; 0 takes a free one.
    pub async fn start(port: u16) -> io::Result<Self> {
        let shop = Arc::new(Shop { port: Mutex::new(port), ..Shop::default() });
        shop.listen().await?;
        let routes = Router::new().route("/v2/orders/{id}", get(arrival)).route("/control", post(control));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (stand_in, stop) = (listener.local_addr()?, CancellationToken::new());
        serve(listener, routes.with_state(Arc::clone(&shop)), stop.clone());
        Ok(Self { shop, stand_in, stop })
    }

    /// Where it listens, such as `http://127.0.0.1:4000`; the same after it was down.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", lock(&self.shop.port))
    }

    /// Where the stand-in and `/control` listen.
    pub fn stand_in_url(&self) -> String {
        format!("http://{}", self.stand_in)
    }

    /// Makes it well or ill. `Down` closes the port; any other mode opens the same one again.
    pub async fn set_mode(&self, mode: Mode) -> io::Result<()> {
        self.shop.set_mode(mode).await
    }

    /// Every refund that was paid: the effects to count.
    pub fn refunds(&self) -> Vec<Refund> {
        lock(&self.shop.refunds).paid.clone()
    }
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Ok(mut listening) = self.shop.listening.try_lock()
            && let Some((stop, _)) = listening.take()
        {
            stop.cancel();
        }
    }
}

impl Shop {
    async fn set_mode(self: &Arc<Self>, mode: Mode) -> io::Result<()> {
        *lock(&self.mode) = mode;
        match mode {
            Mode::Down => self.hang_up().await,
            Mode::Ok | Mode::Slow | Mode::Error => self.listen().await?,
        }
        Ok(())
    }

    async fn listen(self: &Arc<Self>) -> io::Result<()> {
        let mut listening = self.listening.lock().await;
        if listening.is_some() {
            return Ok(());
        }
        let port = *lock(&self.port);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        *lock(&self.port) = listener.local_addr()?.port();
        let stop = CancellationToken::new();
        let v1 = Router::new()
            .route("/v1/orders", get(list))
            .route("/v1/orders/{id}", get(show))
            .route("/v1/orders/{id}/refunds", post(refund))
            .route_layer(middleware::from_fn_with_state((Arc::clone(self), stop.clone()), feel));
        let routes = v1.route("/v2/orders/{id}", get(arrival)).with_state(Arc::clone(self));
        *listening = Some((stop.clone(), serve(listener, routes, stop)));
        Ok(())
    }

    /// Returns once the port is closed and no request is being answered.
    async fn hang_up(&self) {
        if let Some((stop, serving)) = self.listening.lock().await.take() {
            stop.cancel();
            let _ = serving.await;
        }
    }
}

fn serve(listener: TcpListener, routes: Router, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        let serving = axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::warn!(%error, "the order service stopped");
        }
    })
}

/// What stands between a request and its answer: how the service feels. A slow one has done its work
/// when it is late with the answer.
async fn feel(
    State((shop, stop)): State<(Arc<Shop>, CancellationToken)>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let mode = *lock(&shop.mode);
    if mode == Mode::Error {
        return Err(Problem(StatusCode::INTERNAL_SERVER_ERROR, "the warehouse database does not answer".into()));
    }
    let response = next.run(request).await;
    if mode == Mode::Slow {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(10)) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(response)
}

async fn list() -> Json<Value> {
    Json(json!({"count": BOOK.len(), "orders": BOOK.as_slice()}))
}

async fn show(Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    find(&id).map(|order| Json(order.clone()))
}

async fn arrival(Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let order = find(&id)?;
    Ok(Json(json!({"order": {"id": id, "state": order["status"], "arrives": order["eta"]}})))
}

#[derive(Deserialize)]
struct Wanted {
    amount: Value,
    #[serde(default)]
    reason: String,
}

async fn refund(
    State(shop): State<Arc<Shop>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(Wanted { amount, reason }): Json<Wanted>,
) -> Result<(StatusCode, Json<Refund>), Problem> {
    let total = find(&id)?["total"].as_str().and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    let asked = amount.as_f64().or_else(|| amount.as_str()?.parse().ok()).unwrap_or(f64::NAN);
    if !(asked > 0.0 && asked <= total) {
        let reason = format!("the amount has to be more than 0 and at most {total:.2}, what the customer paid");
        return Err(Problem(StatusCode::UNPROCESSABLE_ENTITY, reason));
    }
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).map(str::to_owned);
    let mut refunds = lock(&shop.refunds);
    if let Some(paid) = key.as_ref().and_then(|key| refunds.by_key.get(key)) {
        return Ok((StatusCode::OK, Json(paid.clone())));
    }
    let refund_id = format!("RF{:04}", refunds.paid.len() + 1);
    let paid = Refund { refund_id, order_id: id, amount, reason };
    refunds.paid.push(paid.clone());
    if let Some(key) = key {
        refunds.by_key.insert(key, paid.clone());
    }
    Ok((StatusCode::CREATED, Json(paid)))
}

#[derive(Deserialize)]
struct Control {
    mode: Mode,
}

async fn control(State(shop): State<Arc<Shop>>, Json(wanted): Json<Control>) -> Result<Json<Value>, Problem> {
    let told = shop.set_mode(wanted.mode).await;
    told.map_err(|error| Problem(StatusCode::CONFLICT, format!("the port cannot be opened: {error}")))?;
    Ok(Json(json!({"mode": wanted.mode})))
}

/// An error as this service words it.
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": {"message": self.1}}))).into_response()
    }
}

fn find(id: &str) -> Result<&'static Value, Problem> {
    let found = BOOK.iter().find(|order| order["order_id"] == id);
    found.ok_or_else(|| Problem(StatusCode::NOT_FOUND, format!("there is no order {id}")))
}

#[expect(clippy::expect_used, reason = "the book is part of the program; a test reads it")]
static BOOK: LazyLock<Vec<Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("orders.json")).expect("orders.json is a list"));

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// Sends one request as it stands; returns status and body.
    async fn ask(url: &str, request: &str, body: &str) -> io::Result<(u16, Value)> {
        let mut stream = TcpStream::connect(url.trim_start_matches("http://")).await?;
        let length = body.len();
        let head = format!("{request}\r\nHost: shop\r\nConnection: close\r\nContent-Type: application/json\r\n");
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Ok((head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default()))
    }

    #[tokio::test]
    async fn orders_are_found_and_unknown_ones_are_not() {
        let orders = Orders::start(0).await.unwrap();
        let (status, order) = ask(&orders.url(), "GET /v1/orders/OD20241015 HTTP/1.1", "").await.unwrap();
        assert_eq!((status, &order["status"]), (200, &json!("in_transit")));
        let (_, stand_in) = ask(&orders.stand_in_url(), "GET /v2/orders/OD20241015 HTTP/1.1", "").await.unwrap();
        assert_eq!(stand_in["order"]["arrives"], order["eta"]);
        assert_eq!(ask(&orders.url(), "GET /v1/orders/OD1 HTTP/1.1", "").await.unwrap().0, 404);
        let (_, all) = ask(&orders.url(), "GET /v1/orders HTTP/1.1", "").await.unwrap();
        assert_eq!(all["count"], 10);
        assert!(all.to_string().chars().count() > 4_000, "long enough to be clipped");
    }

    #[tokio::test]
    async fn a_refund_is_paid_once_per_key_and_never_above_the_total() {
        let orders = Orders::start(0).await.unwrap();
        let request = "POST /v1/orders/OD20241015/refunds HTTP/1.1\r\nIdempotency-Key: k1";
        let first = ask(&orders.url(), request, r#"{"amount": "10.00", "reason": "late"}"#).await.unwrap();
        let again = ask(&orders.url(), request, r#"{"amount": "10.00", "reason": "late"}"#).await.unwrap();
        assert_eq!((first.0, again.0, &first.1), (201, 200, &again.1));
        let request = "POST /v1/orders/OD20241015/refunds HTTP/1.1";
        assert_eq!(ask(&orders.url(), request, r#"{"amount": 100000}"#).await.unwrap().0, 422);
        assert_eq!(orders.refunds().len(), 1);
    }

    #[tokio::test]
    async fn it_falls_ill_and_recovers_on_the_same_port() {
        let orders = Orders::start(0).await.unwrap();
        let (url, get) = (orders.url(), "GET /v1/orders/OD20241015 HTTP/1.1");
        orders.set_mode(Mode::Error).await.unwrap();
        assert_eq!(ask(&url, get, "").await.unwrap().0, 500);
        let control = "POST /control HTTP/1.1";
        assert_eq!(ask(&orders.stand_in_url(), control, r#"{"mode": "down"}"#).await.unwrap().0, 200);
        assert_eq!(ask(&url, get, "").await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(ask(&orders.stand_in_url(), control, r#"{"mode": "ok"}"#).await.unwrap().0, 200);
        assert_eq!((ask(&url, get, "").await.unwrap().0, orders.url()), (200, url));
    }

    #[tokio::test]
    async fn a_slow_refund_is_paid_before_its_answer_comes() {
        let orders = Orders::start(0).await.unwrap();
        orders.set_mode(Mode::Slow).await.unwrap();
        let url = orders.url();
        let asking = ask(&url, "POST /v1/orders/OD20241015/refunds HTTP/1.1", r#"{"amount": 1}"#);
        assert!(tokio::time::timeout(Duration::from_secs(1), asking).await.is_err());
        assert_eq!(orders.refunds().len(), 1);
    }
}
