//! The description of the HTTP API, built from the same table of endpoints as the router.
//!
//! `schemas/openapi.json` is exactly this document; a test compares the two, so that a change of the API
//! is a change of a file.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::http::wire;
use crate::http::{Access, Body, Endpoint, endpoints};

/// The OpenAPI 3.1 document.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let problem = schemas.answers.subschema_for::<wire::Problem>().to_value();
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let operation = operation(&endpoint, &mut schemas, &problem);
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Reach",
            "version": "1",
            "summary": "Reliable hands for any agent: list the tools you may use, call them, and read what happened.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.definitions(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// What is read and what is written differ: an answer always has every key, a request may leave some out.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }

    fn definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.requests.take_definitions(true);
        definitions.extend(self.answers.take_definitions(true));
        definitions.sort_keys();
        definitions
    }
}

fn operation(endpoint: &Endpoint, schemas: &mut Schemas, problem: &Value) -> Value {
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "responses": responses(endpoint, &mut schemas.answers, problem),
    });
    let parameters: Vec<Value> = path_parameters(endpoint.path).chain(other_parameters(endpoint)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(schema) = endpoint.request {
        let schema = schema(&mut schemas.requests).to_value();
        operation["requestBody"] = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    if endpoint.access != Access::Open {
        operation["security"] = json!([{"key": []}]);
    }
    if endpoint.access == Access::Operator {
        operation["description"] = format!("Needs the scope `{}`.", crate::OPERATE).into();
    }
    operation
}

fn path_parameters(path: &'static str) -> impl Iterator<Item = Value> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
}

fn other_parameters(endpoint: &Endpoint) -> impl Iterator<Item = Value> {
    endpoint.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": parameter.place,
            "description": parameter.summary,
            "schema": {"type": "string"},
        })
    })
}

/// A call answers with the envelope whatever its status; everything else with a problem when it fails.
fn responses(endpoint: &Endpoint, generator: &mut SchemaGenerator, problem: &Value) -> Value {
    let (media, description, schema) = match &endpoint.answer {
        Body::Json(schema) => ("application/json", "Done.", Some(schema(generator).to_value())),
        Body::Foreign(description) => ("application/json", *description, None),
        Body::Text(description) => ("text/plain", *description, None),
    };
    let content = match &schema {
        Some(schema) => json!({media: {"schema": schema}}),
        None => json!({media: {}}),
    };
    let otherwise = if endpoint.envelope {
        json!({
            "description": "The call was refused or failed; the status is that of the envelope's code.",
            "content": content.clone(),
        })
    } else {
        json!({
            "description": "The request was refused.",
            "content": {"application/problem+json": {"schema": problem}},
        })
    };
    json!({"200": {"description": description, "content": content}, "default": otherwise})
}
