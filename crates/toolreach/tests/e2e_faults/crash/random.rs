//! A hundred kills at random moments, under load, in front of an upstream that misbehaves as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use reach_kit::ledger_upstream::Conduct;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::process::{Heard, House, call};
use super::upstream::Upstream;

const KILLS: u32 = 100;
const CLIENTS: u64 = 8;

/// Numbers that a seed decides.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, faces: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % faces
    }
}

/// The seed of this run: that of `REACH_CRASH_SEED`, to roll the same dice again, or the time.
fn seed() -> u64 {
    let told = std::env::var("REACH_CRASH_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    told.unwrap_or_else(now) | 1
}

/// Sends one new request after another, each with the same key until its fate is known.
async fn client(
    number: u64,
    mut dice: Dice,
    at: watch::Receiver<String>,
    leave: Arc<AtomicBool>,
) -> Vec<(String, Heard)> {
    let mut fates = Vec::new();
    while !leave.load(Ordering::SeqCst) {
        let tool = if dice.roll(2) == 0 { "write_it" } else { "key_it" };
        let key = format!("{tool}-{number}-{}", fates.len());
        let fate = loop {
            let address = at.borrow().clone();
            match call(&address, tool, &key).await.as_ref().map(Heard::of) {
                Ok(Heard::Again) | Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Ok(fate) => break fate,
            }
        };
        fates.push((key, fate));
    }
    fates
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_kills_at_random_moments_leave_no_effect_twice_and_no_answer_without_one() {
    let seed = seed();
    println!("REACH_CRASH_SEED={seed}");
    let mut dice = Dice(seed);
    let upstream = Upstream::start();
    upstream.conduct(Conduct { chaos: Some(seed), ..Conduct::default() }).await;
    let house = House::before(&upstream);

    let (at, address) = watch::channel(String::new());
    let leave = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    let mut gateway = house.serve();
    at.send_replace(gateway.address.clone());
    for number in 0..CLIENTS {
        clients.spawn(client(number, Dice(dice.roll(u64::MAX) | 1), address.clone(), Arc::clone(&leave)));
    }
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(5 + dice.roll(296))).await;
        gateway.kill();
        gateway = house.serve();
        at.send_replace(gateway.address.clone());
    }
    leave.store(true, Ordering::SeqCst);
    let fates: BTreeMap<String, Heard> = clients.join_all().await.into_iter().flatten().collect();
    gateway.stop().await;

    let (books, effects) = (house.books(), upstream.effects());
    let mut done: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for effect in &effects {
        done.entry(effect.body["entry"].as_str().unwrap()).or_default().push(effect.at_ms);
    }
    for (key, times) in &done {
        assert_eq!(times.len(), 1, "{key} was done twice: {times:?}");
        let intent = books.intents.get(*key).unwrap_or_else(|| panic!("{key} was done without an intent"));
        assert!(*intent <= times[0], "{key}: intended at {intent}, done at {}", times[0]);
        assert!(fates.contains_key(*key), "{key} was never asked for");
    }
    for (key, fate) in &fates {
        match fate {
            Heard::Ok => assert!(done.contains_key(key.as_str()), "{key} was answered ok and never done"),
            Heard::Unknown => assert!(key.starts_with("write_it"), "{key}: the upstream knows its key"),
            Heard::Refused(_) | Heard::Again => panic!("{key}: {fate:?}"),
        }
    }
    assert_eq!(books.open_records(), Vec::<&str>::new());
    let unknown = fates.iter().filter(|(_, fate)| **fate == Heard::Unknown).map(|(key, _)| key.clone());
    let unknown: Vec<String> = unknown.collect();
    assert_eq!(house.unsettled(), unknown, "what is told to callers is what an operator sees");

    let of = |tool: &str, fate| fates.iter().filter(|(key, told)| key.starts_with(tool) && **told == fate).count();
    let (writes, keyed, repeated) =
        (of("write_it", Heard::Ok), of("key_it", Heard::Ok), upstream.seen().await.repeated);
    println!("{writes} writes and {keyed} keyed done, {} unknown, {repeated} keys sent again", unknown.len());
    assert!(writes > 100 && keyed > 100 && unknown.len() > 10 && repeated > 10, "the kills met calls under way");
}
