//! Script faults: a real program that exits, prints, hangs or dies as a file beside it says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::bench::{Bench, For, State};

/// Notes that it ran, then does what `mode` says; `once` makes that the last time.
const SCRIPT: &str = r#"
echo "key=$REACH_UPSTREAM_KEY" >> asked
mode=$(cat mode)
if [ -e once ]; then rm once; echo well > mode; fi
case "$mode" in
    well) echo '{"done": true}' ;;
    killed) kill -KILL $$ ;;
    stall) exec sleep 60 ;;
    garbage) echo 'done, more or less' ;;
    contract) echo '{"wrong": 1}' ;;
    oversize) head -c 100000 /dev/zero | tr '\0' 'x' ;;
    exit*) echo 'as told' >&2; exit "${mode#exit }" ;;
esac
"#;

pub(super) fn bench(fault: &str, folder: &Path) -> Bench {
    let folder = folder.to_owned();
    fs::write(folder.join("act.sh"), SCRIPT).unwrap();
    // The program is a link of its own, so that it can be taken away.
    put_program(&folder);
    let part = json!({
        "command": ["./shell", "act.sh", "{id}"],
        "expect": "json",
        "max_output_bytes": 4_096,
        "exit_codes": {"3": "rejected", "4": "not_found", "5": "unavailable", "6": "unauthorised"},
    });
    let refuses = fault == "refuse";
    let fault = fault.to_owned();
    let turn = {
        let folder = folder.clone();
        move |state| {
            let mode = match state {
                State::Broken(_) => fault.as_str(),
                State::Tripped => "exit 1",
                State::Well => "well",
            };
            fs::write(folder.join("mode"), mode).unwrap();
            if state == State::Broken(For::OneRequest) {
                fs::write(folder.join("once"), "").unwrap();
            }
            if refuses && state != State::Well {
                let _ = fs::remove_file(program(&folder));
            } else {
                put_program(&folder);
            }
            std::future::ready(())
        }
    };
    let traces = move || {
        let asked = fs::read_to_string(folder.join("asked")).unwrap_or_default();
        let keys = asked.lines().map(|line| line.strip_prefix("key=").filter(|key| !key.is_empty()).map(str::to_owned));
        std::future::ready(keys.collect())
    };
    let mut bench = Bench::new(("script", part), turn, traces);
    (bench.can_do_once, bench.can_trip) = (!refuses, !refuses);
    bench
}

fn program(folder: &Path) -> PathBuf {
    folder.join("shell")
}

fn put_program(folder: &Path) {
    if !program(folder).exists() {
        symlink("/bin/sh", program(folder)).unwrap();
    }
}
