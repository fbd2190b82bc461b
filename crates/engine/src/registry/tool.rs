//! One tool as the road needs it: its declaration, its compiled checks, its adapter and its upstream.

use std::sync::Arc;

use reach_core::arguments::ArgumentCheck;
use reach_core::breaker::Settings;
use reach_core::{Adapter, Credential, Problem, ToolSpec};

use super::Upstream;

/// A tool as the configuration hands it over.
#[derive(Clone)]
pub struct Declared {
    /// What the operator declared.
    pub spec: ToolSpec,
    /// The body behind it.
    pub adapter: Arc<dyn Adapter>,
    /// What proves to the upstream who we are.
    pub credential: Option<Arc<Credential>>,
    /// `spec.input_schema`, compiled with `spec.coerce`, where whoever checked the declaration has it already;
    /// it is compiled here otherwise. Compiling is the costly part of a start with many tools.
    pub check: Option<Arc<ArgumentCheck>>,
}

/// A tool, compiled.
pub(crate) struct Tool {
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) check: Arc<ArgumentCheck>,
    pub(crate) output: Option<Arc<OutputCheck>>,
    pub(crate) verify: Option<Arc<jmespath::Expression<'static>>>,
    pub(crate) adapter: Arc<dyn Adapter>,
    pub(crate) credential: Option<Arc<Credential>>,
    pub(crate) upstream: Arc<Upstream>,
}

pub(crate) type OutputCheck = reach_core::arguments::Schema;

impl Tool {
    pub(super) fn compile(declared: Declared, upstream: Arc<Upstream>) -> Result<Self, Vec<Problem>> {
        let Declared { mut spec, adapter, credential, check } = declared;
        let mut problems = Vec::new();
        let check = check.or_else(|| {
            let compiled = ArgumentCheck::compile(&spec.input_schema, spec.coerce);
            keep(compiled, "/input_schema", &mut problems).map(Arc::new)
        });
        let output = spec
            .output_schema
            .as_ref()
            .and_then(|schema| keep(OutputCheck::compile(schema), "/output_schema", &mut problems));
        let verify = spec.verify.as_ref().and_then(|verify| match jmespath::compile(&verify.done_when) {
            Ok(expression) => Some(Arc::new(expression)),
            Err(error) => {
                problems.push(Problem::new(
                    "/verify/done_when",
                    format!("not a JMESPath expression: {}", error.reason),
                    "write an expression over the data of the verifying tool, such as `status == 'sent'`",
                ));
                None
            }
        });
        match check {
            Some(check) if problems.is_empty() => Ok(Self {
                // Callers are shown what is enforced: a model that reads the schema is not surprised.
                spec: Arc::new({
                    spec.input_schema = check.enforced().clone();
                    spec
                }),
                check,
                output: output.map(Arc::new),
                verify,
                adapter,
                credential,
                upstream,
            }),
            _ => Err(problems),
        }
    }

    /// The same tool in front of another upstream value.
    pub(super) fn at(&self, upstream: Arc<Upstream>) -> Self {
        Self {
            spec: Arc::clone(&self.spec),
            check: Arc::clone(&self.check),
            output: self.output.clone(),
            verify: self.verify.clone(),
            adapter: Arc::clone(&self.adapter),
            credential: self.credential.clone(),
            upstream,
        }
    }

    /// The name under which its breaker stands: its upstream's, or its own where it declares one.
    pub(crate) fn breaker_key(&self) -> String {
        match self.spec.breaker {
            Some(_) => format!("tool:{}", self.spec.tool_id),
            None => self.upstream.target.clone(),
        }
    }

    /// The settings of that breaker.
    pub(crate) fn breaker(&self) -> Settings {
        self.spec.breaker.unwrap_or_else(|| self.upstream.breaker())
    }
}

fn keep<T>(result: Result<T, Vec<Problem>>, prefix: &str, problems: &mut Vec<Problem>) -> Option<T> {
    result.map_err(|found| problems.extend(found.into_iter().map(|problem| problem.under(prefix)))).ok()
}
