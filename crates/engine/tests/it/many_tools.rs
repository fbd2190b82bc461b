//! Hundreds of tools are compiled on several threads; nobody may notice but by the time it takes.

use std::collections::HashMap;

use reach_core::redact::Scrubber;
use reach_core::{Caller, Effect, Problem};
use reach_engine::{Declared, Engine, Registry};
use serde_json::json;

use crate::fixture::{Gateway, Upstream, body, tool};

const TOOLS: usize = 200;

fn many() -> Vec<Declared> {
    let upstream = Upstream::new("many", []);
    (0..TOOLS)
        .map(|number| {
            let spec = tool(&format!("tool_{number}"), Effect::Read);
            Declared { spec, adapter: body(&upstream), credential: None }
        })
        .collect()
}

fn build(declared: Vec<Declared>) -> Result<Registry, Vec<Problem>> {
    Registry::build(declared, &HashMap::new(), Scrubber::default())
}

#[tokio::test]
async fn many_tools_stay_in_the_order_declared() {
    let stores = Gateway::new(Vec::new()).stores;
    let engine = Engine::new(build(many()).unwrap(), stores);
    let names: Vec<String> = engine.tools(&Caller::local()).iter().map(|spec| spec.tool_id.to_string()).collect();
    let declared: Vec<String> = (0..TOOLS).map(|number| format!("tool_{number}")).collect();
    assert_eq!(names, declared);
}

#[test]
fn every_problem_of_many_tools_names_its_own_place_in_order() {
    let mut declared = many();
    for index in [3, 150] {
        declared[index].spec.input_schema = json!({"type": "object", "properties": {"a": {"type": "strng"}}});
    }
    declared[199].spec.tool_id = declared[0].spec.tool_id.clone();
    let problems = build(declared).unwrap_err();
    let pointers: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        ["/tools/3/input_schema/properties/a/type", "/tools/150/input_schema/properties/a/type", "/tools/199/tool_id"]
    );
}
