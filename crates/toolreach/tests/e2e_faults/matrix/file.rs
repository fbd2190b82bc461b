//! File faults: real files that are missing, in the way, too large or no text.

use std::fs;
use std::path::Path;

use reach_core::Effect;
use serde_json::json;

use super::bench::{Bench, State};

pub(super) fn bench(fault: &str, effect: Effect, folder: &Path) -> Bench {
    let (root, away) = (folder.join("documents"), folder.join("documents.away"));
    fs::create_dir(&root).unwrap();
    let mut part = json!({"root": "./documents", "path": "{id}", "max_bytes": 1_000});
    let keys = part.as_object_mut().unwrap();
    match effect {
        Effect::Read => {
            keys.insert("operation".to_owned(), json!("read"));
            keys.insert("encoding".to_owned(), json!("utf-8"));
        }
        Effect::Idempotent | Effect::Keyed | Effect::Write => {
            keys.insert("operation".to_owned(), json!("write"));
            keys.insert("overwrite".to_owned(), json!(false));
            keys.insert("content".to_owned(), json!("written"));
        }
    }
    let document = root.join("x");
    let (fault, reads) = (fault.to_owned(), effect == Effect::Read);
    let outside = fault == "outside";
    let turn = move |state| {
        if away.exists() {
            fs::rename(&away, &root).unwrap();
        }
        let _ = fs::remove_file(&document);
        match (state, fault.as_str()) {
            (State::Broken(_), "root gone") => fs::rename(&root, &away).unwrap(),
            (State::Broken(_), "missing" | "outside") => {}
            (State::Broken(_), "exists") => fs::write(&document, "was here first").unwrap(),
            (State::Broken(_), "not text") => fs::write(&document, [0xff, 0xfe, 0x80]).unwrap(),
            (State::Broken(_), "too large") => fs::write(&document, "x".repeat(2_000)).unwrap(),
            (State::Well, _) if reads => fs::write(&document, "well").unwrap(),
            (State::Well, _) => {}
            (state, fault) => panic!("{fault}: {state:?} cannot be made"),
        }
        std::future::ready(())
    };
    let mut bench = Bench::new(("file", part), turn, || std::future::ready(Vec::new()));
    if outside {
        bench.id = "../reach.yaml";
    }
    bench
}
