//! The ledger upstream: an HTTP service that puts every effect on disk before it answers.
//!
//! It is meant to run in a process of its own, so that it keeps its word while the gateway in front of it
//! is killed. An effect is one line of JSON ([`Effect`]) in its file, written and synced before the first
//! byte of the answer. `POST /write...` is an effect each time it arrives; `POST /keyed...` is one for each
//! `Idempotency-Key` and answers a repeated key as it did the first time, like a payment service would.
//!
//! How it misbehaves is set from outside: `POST /control` with a [`Conduct`], or a chaos of its own whose
//! dice follow a seed. `GET /seen` tells how many requests it has read whole and how many effects are on
//! disk, so that a test knows when a request has arrived without looking at a clock.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::{Recorded, read_request};

/// One effect, as it stands in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Milliseconds since the Unix epoch when it was written.
    pub at_ms: u64,
    /// The path of the request.
    pub path: String,
    /// The `Idempotency-Key`, where one was sent.
    pub key: Option<String>,
    /// The `X-Request-Id`.
    pub request_id: Option<String>,
    /// The body, as JSON.
    pub body: Value,
}

/// What the upstream does with effects from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Conduct {
    /// Milliseconds between reading the request and the effect.
    pub before_ms: u64,
    /// Milliseconds between the effect and the answer.
    pub after_ms: u64,
    /// How it goes on.
    pub then: Then,
    /// So many requests; after them it behaves again. `null` is for ever.
    pub times: Option<u32>,
    /// Dice of its own for every request, with this seed, instead of all of the above.
    pub chaos: Option<u64>,
}

/// How a request goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// 200 once the effect is on disk.
    #[default]
    Answer,
    /// The request is read and nothing is done with it until the client has gone.
    HoldBefore,
    /// The effect is on disk; no answer until the client has gone.
    HoldAfter,
    /// The effect is on disk, and the connection is reset.
    ResetAfter,
    /// Nothing is done, and the connection is reset.
    ResetBefore,
    /// The effect is on disk, and the answer is 500.
    FailAfter,
}

/// What `GET /seen` answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Requests for effects read whole.
    pub received: u64,
    /// Effects on disk.
    pub recorded: u64,
    /// Repeated keys that were answered from memory.
    pub repeated: u64,
}

struct State {
    book: Mutex<Book>,
    conduct: Mutex<Conduct>,
    seen: Mutex<Seen>,
}

struct Book {
    file: File,
    answers: HashMap<String, String>,
}

/// Every effect in a file, oldest first. Fails on a line that is no effect.
pub fn effects(file: &Path) -> io::Result<Vec<Effect>> {
    let lines = BufReader::new(File::open(file)?).lines();
    lines.map(|line| serde_json::from_str(&line?).map_err(io::Error::other)).collect()
}

/// Serves until the process ends. Goes on with what is in the file already.
pub async fn serve(listener: TcpListener, file: &Path) -> io::Result<()> {
    let known = if file.exists() { effects(file)? } else { Vec::new() };
    let answers = known.iter().filter_map(|effect| Some((effect.key.clone()?, answer_of(effect)))).collect();
    let seen = Seen { recorded: known.len() as u64, ..Seen::default() };
    let state = Arc::new(State {
        book: Mutex::new(Book { file: OpenOptions::new().create(true).append(true).open(file)?, answers }),
        conduct: Mutex::default(),
        seen: Mutex::new(seen),
    });
    loop {
        let (stream, _) = listener.accept().await?;
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            // A client that breaks off is what most tests are about.
            let _ = converse(stream, &state).await;
        });
    }
}

async fn converse(mut stream: TcpStream, state: &State) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await? {
        let answer = match (request.method.as_str(), request.target.as_str()) {
            ("GET", "/seen") => (200, serde_json::to_string(&*state.seen.lock()).map_err(io::Error::other)?),
            ("POST", "/control") => match serde_json::from_slice(&request.body) {
                Ok(conduct) => {
                    *state.conduct.lock() = conduct;
                    (200, "{}".to_owned())
                }
                Err(error) => (400, serde_json::json!({ "error": error.to_string() }).to_string()),
            },
            ("POST", target) if target.starts_with("/write") || target.starts_with("/keyed") => {
                match carry_out(&mut stream, state, &request).await? {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            _ => (404, r#"{"error":"there is /write, /keyed, /control and /seen"}"#.to_owned()),
        };
        respond(&mut stream, answer.0, &answer.1).await?;
    }
    Ok(())
}

/// One effect, or what the conduct makes of it. `None` when the connection is to end without an answer.
async fn carry_out(stream: &mut TcpStream, state: &State, request: &Recorded) -> io::Result<Option<(u16, String)>> {
    let number = {
        let mut seen = state.seen.lock();
        seen.received += 1;
        seen.received
    };
    let conduct = conduct_for(state, number);
    tokio::time::sleep(Duration::from_millis(conduct.before_ms)).await;
    match conduct.then {
        Then::HoldBefore => {
            until_gone(stream).await?;
            return Ok(None);
        }
        Then::ResetBefore => {
            stream.set_zero_linger()?;
            return Ok(None);
        }
        Then::Answer | Then::HoldAfter | Then::ResetAfter | Then::FailAfter => {}
    }
    let answer = record(state, request)?;
    tokio::time::sleep(Duration::from_millis(conduct.after_ms)).await;
    Ok(match conduct.then {
        Then::HoldAfter => {
            until_gone(stream).await?;
            None
        }
        Then::ResetAfter => {
            stream.set_zero_linger()?;
            None
        }
        Then::FailAfter => Some((500, r#"{"error":"something broke after the work was done"}"#.to_owned())),
        Then::Answer | Then::HoldBefore | Then::ResetBefore => Some((200, answer)),
    })
}

/// The effect on disk, or the answer to its key. One at a time, so that two of one key are one.
fn record(state: &State, request: &Recorded) -> io::Result<String> {
    let key = request.header("idempotency-key").map(str::to_owned);
    let keyed = key.as_ref().filter(|_| request.target.starts_with("/keyed"));
    let mut book = state.book.lock();
    if let Some(known) = keyed.and_then(|key| book.answers.get(key)) {
        let known = known.clone();
        state.seen.lock().repeated += 1;
        return Ok(known);
    }
    let effect = Effect {
        at_ms: now_ms(),
        path: request.target.clone(),
        key: key.clone(),
        request_id: request.header("x-request-id").map(str::to_owned),
        body: serde_json::from_slice(&request.body).unwrap_or(Value::Null),
    };
    let mut line = serde_json::to_vec(&effect)?;
    line.push(b'\n');
    book.file.write_all(&line)?;
    book.file.sync_data()?;
    let answer = answer_of(&effect);
    if let Some(key) = key {
        book.answers.insert(key, answer.clone());
    }
    state.seen.lock().recorded += 1;
    Ok(answer)
}

/// What an effect is answered with, the first time and every other.
fn answer_of(effect: &Effect) -> String {
    serde_json::json!({ "done": true, "at_ms": effect.at_ms }).to_string()
}

/// The conduct for this request; counts it down.
fn conduct_for(state: &State, number: u64) -> Conduct {
    let mut current = state.conduct.lock();
    if let Some(seed) = current.chaos {
        return dice(seed, number);
    }
    let conduct = *current;
    if let Some(left) = &mut current.times {
        *left = left.saturating_sub(1);
        if *left == 0 {
            *current = Conduct::default();
        }
    }
    conduct
}

/// What the dice of a seed say about the request of this number: most work, some slowly, some go wrong.
fn dice(seed: u64, number: u64) -> Conduct {
    let mut mixed = (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x6a09_e667_f3bc_c909);
    let mut roll = |faces: u64| {
        mixed ^= mixed >> 30;
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^= mixed >> 27;
        mixed = mixed.wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        mixed % faces
    };
    let then = match roll(20) {
        0 => Then::ResetAfter,
        1 => Then::ResetBefore,
        2 => Then::FailAfter,
        _ => Then::Answer,
    };
    Conduct { before_ms: roll(12), after_ms: roll(12), then, times: None, chaos: None }
}

async fn until_gone(stream: &mut TcpStream) -> io::Result<()> {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

async fn respond(stream: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    let head =
        format!("HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
