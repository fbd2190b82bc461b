//! Random walks of several owners over a few keys, compared step by step with a model of the rules.
//!
//! The model is the whole rule in forty lines; the ledger must agree on every answer. From that follow
//! the invariants: never two owners of one key at once, done stays done, a mismatch is never fresh.

use std::collections::HashMap;

use proptest::prelude::*;
use reach_core::Effect;
use reach_store::Ledger;
use reach_store::ledger::{Claimed, Ending, Recovered, SqliteLedger};

use crate::ledger::{SqliteStage, claim_of, intent, key};

const OWNERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Claim {
        owner: usize,
        key: u8,
        print: u8,
        effect: Effect,
    },
    Intend {
        owner: usize,
        key: u8,
        epoch: u64,
    },
    Finish {
        owner: usize,
        key: u8,
        epoch: u64,
        ending: Ending,
    },
    Settle {
        owner: usize,
        key: u8,
        done: bool,
    },
    /// The process ends; its successor recovers.
    Restart {
        owner: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (owner, key, epoch) = (0..OWNERS, 0u8..2, 1u64..5);
    let effect = prop_oneof![2 => Just(Effect::Write), 1 => Just(Effect::Keyed)];
    let ending = prop_oneof![
        1 => Just(Ending::Done { envelope: "done".into() }),
        2 => Just(Ending::Unknown { envelope: "unknown".into() }),
        2 => Just(Ending::Released),
    ];
    let step = prop_oneof![
        6 => (owner.clone(), key.clone(), prop_oneof![5 => Just(0u8), 1 => Just(1u8)], effect)
            .prop_map(|(owner, key, print, effect)| Step::Claim { owner, key, print, effect }),
        5 => (owner.clone(), key.clone(), epoch.clone())
            .prop_map(|(owner, key, epoch)| Step::Intend { owner, key, epoch }),
        4 => (owner.clone(), key.clone(), epoch, ending)
            .prop_map(|(owner, key, epoch, ending)| Step::Finish { owner, key, epoch, ending }),
        1 => (owner.clone(), key, any::<bool>()).prop_map(|(owner, key, done)| Step::Settle { owner, key, done }),
        1 => owner.prop_map(|owner| Step::Restart { owner }),
    ];
    prop::collection::vec(step, 1..50)
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Claimed,
    InFlight,
    Ended(Ending),
}

#[derive(Clone, Debug)]
struct Record {
    state: State,
    owner: (usize, u64),
    epoch: u64,
    print: u8,
    effect: Effect,
}

/// The rules. An owner is a place and how often it was restarted.
#[derive(Default)]
struct Model {
    records: HashMap<u8, Record>,
    lives: [u64; OWNERS],
}

impl Model {
    fn claim(&mut self, owner: usize, key: u8, print: u8, effect: Effect) -> &'static str {
        let owner = (owner, self.lives[owner]);
        let next = match self.records.get(&key) {
            None => 1,
            Some(record) if record.print != print => return "mismatch",
            Some(record) => match &record.state {
                State::Claimed | State::InFlight => return "in progress",
                State::Ended(Ending::Done { .. }) => return "done",
                State::Ended(Ending::Unknown { .. }) => return "unknown",
                State::Ended(Ending::Released) => record.epoch + 1,
            },
        };
        self.records.insert(key, Record { state: State::Claimed, owner, epoch: next, print, effect });
        "fresh"
    }

    fn held(&mut self, owner: usize, key: u8, epoch: u64) -> Option<&mut Record> {
        let owner = (owner, self.lives[owner]);
        self.records.get_mut(&key).filter(|record| {
            record.owner == owner && record.epoch == epoch && matches!(record.state, State::Claimed | State::InFlight)
        })
    }

    fn intend(&mut self, owner: usize, key: u8, epoch: u64) -> bool {
        self.held(owner, key, epoch).map(|record| record.state = State::InFlight).is_some()
    }

    fn finish(&mut self, owner: usize, key: u8, epoch: u64, ending: &Ending) -> bool {
        if let Some(record) = self.held(owner, key, epoch) {
            record.state = State::Ended(ending.clone());
            return true;
        }
        let owner = (owner, self.lives[owner]);
        let Some(record) = self.records.get_mut(&key).filter(|record| record.epoch == epoch) else { return false };
        match &record.state {
            State::Ended(Ending::Unknown { .. }) => {
                (record.state, record.owner) = (State::Ended(ending.clone()), owner);
                true
            }
            State::Ended(same) => same == ending && record.owner == owner,
            State::Claimed | State::InFlight => false,
        }
    }

    fn settle(&mut self, owner: usize, key: u8, ending: &Ending) -> bool {
        let owner = (owner, self.lives[owner]);
        let unknown = |record: &&mut Record| matches!(record.state, State::Ended(Ending::Unknown { .. }));
        let Some(record) = self.records.get_mut(&key).filter(unknown) else { return false };
        (record.state, record.owner) = (State::Ended(ending.clone()), owner);
        true
    }

    fn restart(&mut self, owner: usize) -> Recovered {
        let gone = (owner, self.lives[owner]);
        self.lives[owner] += 1;
        let heir = (owner, self.lives[owner]);
        let mut recovered = Recovered::default();
        for record in self.records.values_mut().filter(|record| record.owner == gone) {
            let ending = match record.state {
                State::InFlight if record.effect == Effect::Write => {
                    recovered.unknown += 1;
                    Ending::Unknown { envelope: String::new() }
                }
                State::Claimed | State::InFlight => {
                    recovered.released += 1;
                    Ending::Released
                }
                State::Ended(_) => continue,
            };
            (record.state, record.owner) = (State::Ended(ending), heir);
        }
        recovered
    }
}

fn word(claimed: &Claimed) -> &'static str {
    match claimed {
        Claimed::Fresh { .. } => "fresh",
        Claimed::Done { .. } => "done",
        Claimed::InProgress => "in progress",
        Claimed::Mismatch => "mismatch",
        Claimed::Unknown { .. } => "unknown",
    }
}

async fn walk(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let stage = SqliteStage::new();
    let mut owners: Vec<Option<SqliteLedger>> = (0..OWNERS).map(|_| Some(stage.open_here())).collect();
    let mut model = Model::default();
    for step in steps {
        let place = match step {
            Step::Claim { owner, .. }
            | Step::Intend { owner, .. }
            | Step::Finish { owner, .. }
            | Step::Settle { owner, .. }
            | Step::Restart { owner } => owner,
        };
        let name = |key: u8| format!("k{key}");
        let Some(ledger) = &owners[place] else { unreachable!("every place is taken") };
        match step.clone() {
            Step::Claim { owner, key, print, effect } => {
                let claimed = ledger.claim(claim_of(&name(key), &print.to_string(), effect)).await.unwrap();
                prop_assert_eq!(word(&claimed), model.claim(owner, key, print, effect), "{:?}", step);
                if let Claimed::Fresh { epoch } | Claimed::Unknown { epoch, .. } = claimed {
                    prop_assert_eq!(epoch, model.records[&key].epoch, "{:?}", step);
                }
            }
            Step::Intend { owner, key: k, epoch } => {
                let intended = ledger.intend(key(&name(k)), epoch, intent(&name(k))).await;
                prop_assert_eq!(intended.is_ok(), model.intend(owner, k, epoch), "{:?}: {:?}", step, intended);
            }
            Step::Finish { owner, key: k, epoch, ending } => {
                let finished = ledger.finish(key(&name(k)), epoch, ending.clone()).await;
                prop_assert_eq!(finished.is_ok(), model.finish(owner, k, epoch, &ending), "{:?}: {:?}", step, finished);
            }
            Step::Settle { owner, key: k, done } => {
                let ending = if done { Ending::Done { envelope: "by hand".into() } } else { Ending::Released };
                let settled = ledger.settle(key(&name(k)), ending.clone()).await.unwrap();
                prop_assert_eq!(settled, model.settle(owner, k, &ending), "{:?}", step);
            }
            Step::Restart { owner } => {
                owners[owner] = None;
                let heir = stage.open_here();
                prop_assert_eq!(heir.recover().await.unwrap(), model.restart(owner), "{:?}", step);
                owners[owner] = Some(heir);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_ledger_agrees_with_the_rules_on_every_step(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(walk(steps))?;
    }
}
