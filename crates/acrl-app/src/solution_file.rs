//! An exact solution with its model, as a file that `acrl run` executes.
//!
//! The file is a `safetensors` container like those of trained policies, so that damage and newer versions are noticed; the model's
//! arrays and the rules are tensors, what is small is metadata.

use std::path::Path;
use std::sync::Arc;

use acrl::{CsrModel, FiniteCmdp, Objective, Requirement, Specification};
use acrl_exact::{Executable, ExecutableComponent};
use acrl_files::{Container, Tensor};
use serde::{Deserialize, Serialize};

use crate::{Context as _, Error, bail, ensure};

const KIND: &str = "finite";
const VERSION: u64 = 1;

/// Content of a policy file of `acrl solve`: a solved policy with its model.
#[derive(Debug, Clone)]
pub struct SolutionFile {
    /// The model.
    pub model: Arc<FiniteCmdp>,
    /// The objective and the requirements.
    pub specification: Specification,
    /// The solution.
    pub answer: Executable,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    kind: String,
    version: u64,
    program: String,
    objective: Option<Objective>,
    requirements: Vec<Requirement>,
    states: usize,
    choices: usize,
    transitions: usize,
    rewards: Vec<String>,
    /// The distinct names of actions; none if they are numbers.
    actions: Option<Vec<String>>,
    /// The number of states to start from.
    initial: usize,
    /// The number of rules.
    rules: usize,
    parts: Vec<Part>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    mass: f64,
    multipliers: Vec<f64>,
    weights: Vec<f64>,
    values: Vec<Vec<f64>>,
}

impl SolutionFile {
    /// Whether a container is such a file, and not a trained policy.
    pub fn is_in(container: &Container) -> bool {
        container.meta.get("kind").is_some_and(|kind| kind == KIND)
    }

    /// Writes the file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        Ok(self.to_container()?.save(path)?)
    }

    /// The container of the file.
    pub fn to_container(&self) -> Result<Container, Error> {
        let (model, answer) = (&*self.model, &self.answer);
        let part = |part: &ExecutableComponent| Part {
            mass: part.mass,
            multipliers: part.multipliers.clone(),
            weights: part.weights.clone(),
            values: part.values.clone(),
        };
        let meta = Meta {
            kind: KIND.to_owned(),
            version: VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            objective: self.specification.objective().cloned(),
            requirements: self.specification.requirements().to_vec(),
            states: model.states(),
            choices: model.choice_count(),
            transitions: model.transitions(),
            rewards: model.reward_names().to_vec(),
            actions: model.action_names().map(<[String]>::to_vec),
            initial: model.initial().len(),
            rules: answer.policies.len(),
            parts: answer.components.iter().map(part).collect(),
        };
        let mut container = Container::new(serde_json::to_value(&meta)?);
        let (n, choices) = (meta.states, meta.choices);
        let mut put = |name: &str, tensor: Tensor| _ = container.tensors.insert(name.to_owned(), tensor);
        let whole = |x: usize| u32::try_from(x).ok().context("the model is too large for a policy file");
        let first_choice =
            (0..n).map(|s| whole(model.choices(s).end)).collect::<Result<Vec<u32>, Error>>()?;
        put("model.choices_end", Tensor::whole([n], first_choice));
        let (mut ends, mut targets, mut probabilities, mut rewards) = (vec![], vec![], vec![], vec![]);
        for c in 0..choices {
            let choice = model.choice(c);
            targets.extend_from_slice(choice.targets);
            probabilities.extend_from_slice(choice.probabilities);
            rewards.extend_from_slice(choice.rewards);
            ends.push(whole(targets.len())?);
        }
        put("model.transitions_end", Tensor::whole([choices], ends));
        put("model.targets", Tensor::whole([meta.transitions], targets));
        put("model.probabilities", Tensor::f64([meta.transitions], probabilities));
        put("model.rewards", Tensor::f64([choices, meta.rewards.len()], rewards));
        let actions: Vec<u32> = (0..n).flat_map(|s| model.action_numbers(s)).map(|a| a as u32).collect();
        put("model.actions", Tensor::whole([choices], actions));
        let (states, shares): (Vec<usize>, Vec<f64>) = model.initial().iter().copied().unzip();
        put(
            "model.initial_states",
            Tensor::whole([states.len()], states.iter().map(|&s| s as u32).collect()),
        );
        put("model.initial_probabilities", Tensor::f64([shares.len()], shares));
        // States that are called by their numbers need no names.
        if (0..n).any(|s| model.state_name(s) != s.to_string()) {
            let (mut text, mut ends) = (Vec::new(), Vec::new());
            for s in 0..n {
                text.extend_from_slice(model.state_name(s).as_bytes());
                ends.push(whole(text.len())?);
            }
            put("model.state_names", Tensor::bytes(text));
            put("model.state_names_end", Tensor::whole([n], ends));
        }
        put("rules", Tensor::whole([answer.policies.len(), n], answer.policies.concat()));
        if !answer.journey.is_empty() {
            put("journey", Tensor::whole([n], answer.journey.clone()));
            put("part_of", Tensor::whole([n], answer.component_of.clone()));
        }
        Ok(container)
    }

    /// Reads and checks a container.
    pub fn from_container(mut container: Container) -> Result<Self, Error> {
        let meta = std::mem::take(&mut container.meta);
        // Before anything else, as a newer version may differ in anything else.
        match meta.get("version").and_then(serde_json::Value::as_u64) {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => bail!(
                "written by a newer acrl: this program reads version {VERSION} of solved policies, and the file has version {newer}"
            ),
            _ => bail!("its version is not known, expected {VERSION}"),
        }
        let meta: Meta = serde_json::from_value(meta).context("the metadata of the policy cannot be read")?;
        let specification = Specification::new(meta.objective, meta.requirements)?;
        let (n, choices) = (meta.states, meta.choices);
        let with_zero = |mut ends: Vec<u32>| {
            ends.insert(0, 0);
            ends
        };
        let first_row = with_zero(container.take_whole("model.choices_end", &[n])?);
        let first_entry = with_zero(container.take_whole("model.transitions_end", &[choices])?);
        let targets = container.take_whole("model.targets", &[meta.transitions])?;
        let probabilities = container.take_f64("model.probabilities", &[meta.transitions])?;
        let rewards = container.take_f64("model.rewards", &[choices, meta.rewards.len()])?;
        let actions = container.take_whole("model.actions", &[choices])?;
        let initial_states = container.take_whole("model.initial_states", &[meta.initial])?;
        let shares = container.take_f64("model.initial_probabilities", &[meta.initial])?;
        let names = match container.tensors.contains_key("model.state_names") {
            true => Some((
                container.take_bytes("model.state_names")?,
                container.take_whole("model.state_names_end", &[n])?,
            )),
            false => None,
        };
        let rules = container.take_whole("rules", &[meta.rules, n])?;
        let several = container.tensors.contains_key("journey");
        let mut table = |name| if several { container.take_whole(name, &[n]) } else { Ok(Vec::new()) };
        let (journey, part_of) = (table("journey")?, table("part_of")?);
        container.nothing_left()?;
        // Actions without names are called by their numbers: among those of the state, or, where states lack some, by their
        // columns.
        let positions = || first_row.windows(2).flat_map(|ends| 0..ends[1].saturating_sub(ends[0]));
        let action_names = meta.actions.or_else(|| {
            let columns = actions.iter().max().filter(|_| !actions.iter().copied().eq(positions()))?;
            Some((0..=*columns).map(|column| column.to_string()).collect())
        });
        let row_actions = action_names.is_some().then_some(actions);
        let arrays = CsrModel {
            states: n,
            reward_names: meta.rewards,
            first_row: Some(first_row),
            action_names,
            row_actions,
            first_entry,
            targets,
            probabilities,
            rewards,
            initial: initial_states.into_iter().map(|s| s as usize).zip(shares).collect(),
        };
        let mut model = FiniteCmdp::from_csr(arrays)?;
        ensure!(
            model.choice_count() == choices,
            "the policy contradicts itself: choices without transitions"
        );
        if let Some((text, ends)) = names {
            model = renamed(&model, &text, &ends)
                .context("the policy contradicts itself: the names of its states")?;
        }
        let part = |part: Part| ExecutableComponent {
            mass: part.mass,
            multipliers: part.multipliers,
            weights: part.weights,
            values: part.values,
        };
        let answer = Executable {
            components: meta.parts.into_iter().map(part).collect(),
            component_of: part_of,
            journey,
            policies: rules.chunks(n.max(1)).map(<[u32]>::to_vec).collect(),
        };
        if let Err(message) = answer.check(&model, specification.requirements().len()) {
            bail!("the policy contradicts itself: {message}");
        }
        specification.bind(model.reward_names())?;
        Ok(Self { model: Arc::new(model), specification, answer })
    }
}

/// The model with names for its states; `None` if they are not text.
fn renamed(model: &FiniteCmdp, text: &[u8], ends: &[u32]) -> Option<FiniteCmdp> {
    let mut named = FiniteCmdp::builder(model.reward_names().to_vec());
    let mut begin = 0;
    for &end in ends {
        named.state(std::str::from_utf8(text.get(begin..end as usize)?).ok()?);
        begin = end as usize;
    }
    for s in 0..model.states() {
        for c in model.choices(s) {
            let choice = model.choice(c);
            let to: Vec<(usize, f64)> = choice
                .targets
                .iter()
                .map(|&t| t as usize)
                .zip(choice.probabilities.iter().copied())
                .collect();
            named.choice(s, model.action_name(c), &to, choice.rewards);
        }
    }
    for &(s, p) in model.initial() {
        named.initial(s, p);
    }
    named.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SolutionFile {
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        b.state("home");
        b.state("work ü");
        b.choice(0, "stay", &[(0, 1.0)], &[0.5, 0.0]);
        b.choice(0, "go", &[(1, 0.75), (0, 0.25)], &[0.0, 0.0]);
        b.choice(1, "go", &[(0, 1.0)], &[0.0, 1.0]);
        b.initial(0, 0.5);
        b.initial(1, 0.5);
        let part = ExecutableComponent {
            mass: 1.0,
            multipliers: vec![0.25],
            weights: vec![0.4, 0.6],
            values: vec![vec![0.5, 0.0], vec![0.0, 0.4]],
        };
        let answer = Executable {
            components: vec![part],
            component_of: Vec::new(),
            journey: Vec::new(),
            policies: vec![vec![0, 0], vec![1, 0]],
        };
        let requirement = Requirement::at_least("r1", 0.2).unwrap();
        let specification = Specification::new(Some(Objective::maximize("r0")), vec![requirement]).unwrap();
        SolutionFile { model: Arc::new(b.build().unwrap()), specification, answer }
    }

    #[test]
    fn solution_files_round_trip() {
        let file = file();
        let bytes = file.to_container().unwrap().to_bytes().unwrap();
        let back = SolutionFile::from_container(Container::from_bytes(&bytes).unwrap()).unwrap();
        assert_eq!((&back.specification, &back.answer), (&file.specification, &file.answer));
        let content = |model: &FiniteCmdp| {
            let choice = |c: usize| {
                let choice = model.choice(c);
                (model.action_name(c).into_owned(), choice.targets.to_vec(), choice.probabilities.to_vec())
            };
            let choices: Vec<_> = (0..model.choice_count()).map(choice).collect();
            (model.state_name(1).into_owned(), choices, model.initial().to_vec())
        };
        assert_eq!(content(&back.model), content(&file.model));
    }

    #[test]
    fn newer_or_inconsistent_files_are_rejected() {
        let error = |change: &dyn Fn(&mut Container)| {
            let mut container = file().to_container().unwrap();
            change(&mut container);
            SolutionFile::from_container(container).unwrap_err().to_string()
        };
        assert!(error(&|c| c.meta["version"] = 2.into()).contains("newer acrl"));
        assert!(error(&|c| c.meta["surprise"] = 2.into()).contains("metadata"));
        assert!(
            error(&|c| c.meta["parts"][0]["weights"] = serde_json::json!([0.4, 0.5])).contains("contradicts")
        );
        assert!(error(&|c| _ = c.tensors.remove("rules")).contains("'rules' is missing"));
        assert!(
            error(&|c| _ = c.tensors.insert("rules".to_owned(), Tensor::whole([2, 2], vec![0, 0, 2, 0])))
                .contains("action")
        );
        assert!(
            error(&|c| _ = c.tensors.insert("more".to_owned(), Tensor::whole([1], vec![0]))).contains("more")
        );
    }
}
