//! Continuous environments and training in the problem file, and what is said about a file that is wrong.

#![allow(clippy::unwrap_used)]

use acrl_envs::{
    Continuous, CriterionSetting, LearnerSetting, MethodSetting, Problem, Shape, Source, TrainSettings,
    WeightSamplerSetting,
};

fn environment(kind: &str, text: &str) -> String {
    format!("[environment]\nkind = '{kind}'\n{text}")
}

fn message(text: &str) -> String {
    let error = Problem::parse(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error:?} has more than one line");
    error
}

#[test]
fn a_planar_file_says_where_its_regions_are() {
    let text = environment(
        "planar",
        "width = 20\nheight = 5\nspeed_limit = 3\nenergy = true\nsampling_time = 0.1
regions = [{ name = 'a', shape = 'disc', centre = [18, 2.5], radius = 1 }]
home = { shape = 'polygon', vertices = [[0, 0], [2, 0], [0, 2]] }",
    );
    let problem = Problem::parse(&text).unwrap();
    let Source::Continuous(Continuous::Planar(planar)) = &problem.source else { panic!("not planar") };
    let p = planar.parameters();
    assert_eq!(
        (p.width, p.height, p.speed_limit, p.energy, p.sampling_time),
        (20.0, 5.0, Some(3.0), true, 0.1)
    );
    assert_eq!(p.regions[0].shape, Shape::Disc { centre: [18.0, 2.5], radius: 1.0 });
    assert_eq!(problem.source.reward_names().unwrap(), ["a", "home", "energy"]);
    assert_eq!(problem.specification.names(), ["a"]);
}

#[test]
fn training_has_defaults_that_depend_on_the_kind_of_problem() {
    let train = |kind: &str, text: &str| {
        Problem::parse(&environment(kind, &format!("[train]\n{text}"))).unwrap().train
    };
    assert_eq!(train("planar", ""), TrainSettings::continuous());
    assert_eq!(train("queue", ""), TrainSettings::default());
    let (continuous, finite) = (TrainSettings::continuous(), TrainSettings::default());
    assert_eq!((continuous.learner, continuous.steps), (LearnerSetting::Ppo, 10_000_000));
    assert_eq!((finite.learner, finite.steps), (LearnerSetting::Tabular, 1_000_000));
    let given = train(
        "drone",
        "learner = 'actor_critic'\nsteps = 5\npoints = 7\nhidden = [32]\ndiscount = 0.9\nhold = 3\ntargets = 'average'\n\
         sampler = 'corners'\nseed = 11\nmethod = 'primal_dual'\nstep_size = 0.01\nmultiplier_step = 2",
    );
    let expected = TrainSettings {
        method: MethodSetting::PrimalDual,
        learner: LearnerSetting::ActorCritic,
        steps: 5,
        steps_given: true,
        points: 7,
        hidden: vec![32],
        discount: Some(0.9),
        hold: Some(3),
        step_size: Some(0.01),
        multiplier_step: Some(2.0),
        targets: CriterionSetting::Average,
        sampler: WeightSamplerSetting::Corners,
        seed: 11,
    };
    assert_eq!(given, expected);
    for setting in WeightSamplerSetting::ALL {
        assert_eq!(setting.to_string().parse::<WeightSamplerSetting>().unwrap(), *setting);
    }
    for setting in MethodSetting::ALL {
        assert_eq!(setting.to_string().parse::<MethodSetting>().unwrap(), *setting);
    }
    let error = "sgd".parse::<LearnerSetting>().unwrap_err().to_string();
    for wrong in ["method = 'magic'", "step_size = 0", "multiplier_step = -1"] {
        let error = Problem::parse(&environment("planar", &format!("[train]\n{wrong}"))).unwrap_err();
        assert!(error.to_string().contains("in [train]"), "{error}");
    }
    assert_eq!(error, "the learner is \"sgd\", expected one of ppo, policy_gradient, actor_critic, tabular");
}

#[test]
fn what_the_file_gives_can_be_told_from_what_is_assumed() {
    let run = |text: &str| Problem::parse(&environment("planar", &format!("[run]\n{text}"))).unwrap().run;
    let given = |text: &str| (run(text).step_size_given, run(text).epoch_given);
    assert_eq!(given("steps = 3"), (false, false));
    assert_eq!(given("step_size = 0.5"), (true, false));
    assert_eq!(given("epoch = 'auto'"), (false, true));
    assert_eq!(given("epoch_start = 10"), (false, true));
    assert_eq!(given("epoch = 1\nstep_size = 0.01"), (true, true));
}

#[test]
fn every_wrong_parameter_is_said_in_one_sentence() {
    let square = "shape = 'square', centre = [5, 5], side = 2";
    let region = |keys: &str| format!("regions = [{{ {keys} }}]");
    let cases = [
        (
            "planar",
            "width = 0".into(),
            "line 3: 'width' of the planar environment is 0, expected a number above 0 and at most",
        ),
        ("planar", "height = -1".into(), "line 3: 'height' of the planar environment is -1"),
        (
            "planar",
            "width = 'x'".into(),
            "line 3: 'width' in [environment]: invalid type: string \"x\", expected a number",
        ),
        ("planar", "sampling_time = nan".into(), "line 3: 'sampling_time' of the planar environment is NaN"),
        ("planar", "speed_limit = inf".into(), "line 3: 'speed_limit' of the planar environment is inf"),
        (
            "planar",
            "energy = true".into(),
            "line 3: 'energy' of the planar environment is true, expected false, unless",
        ),
        (
            "planar",
            "energy = 1".into(),
            "line 3: 'energy' in [environment]: invalid type: integer '1', expected a boolean",
        ),
        ("planar", "regions = []".into(), "line 3: 'regions' of the planar environment is a list of 0"),
        (
            "planar",
            "regions = 3".into(),
            "line 3: 'regions' in [environment]: invalid type: integer '3', expected a list",
        ),
        (
            "planar",
            "regions = [3]".into(),
            "line 3: 'regions' in [environment]: invalid type: integer '3', expected a table: name",
        ),
        ("planar", region(square), "line 3: 'regions' in [environment]: missing key 'name'"),
        (
            "planar",
            region("name = 'a', shape = 'ring'"),
            "line 3: 'regions' in [environment]: unknown variant 'ring', expected one of 'square', 'disc', 'polygon'",
        ),
        (
            "planar",
            region("name = 'a', shape = 'disc', side = 1"),
            "line 3: 'regions' in [environment]: region 'a': a disc needs 'centre' and 'radius' and nothing else",
        ),
        (
            "planar",
            region("name = 'a', shape = 'square', centre = [1, 2, 3], side = 1"),
            "line 3: 'regions' in [environment]: a list of 3, expected a point [x, y]",
        ),
        (
            "planar",
            region(&format!("name = 'a', center = [1, 2], {square}")),
            "line 3: 'regions' in [environment]: unknown key 'center', expected one of 'name'",
        ),
        (
            "planar",
            region(&format!("name = 'home', {square}")),
            "line 3: 'regions[0].name' of the planar environment is 'home', expected a name",
        ),
        (
            "planar",
            "home = { shape = 'disc', centre = [0, 0], radius = 1 }".into(),
            "line 3: 'home.centre' of the planar environment is such that the region reaches from (-1, -1)",
        ),
        (
            "planar",
            "home = { shape = 'polygon' }".into(),
            "line 3: 'home' in [environment]: a polygon needs 'vertices' and nothing else",
        ),
        (
            "planar",
            "size = 10".into(),
            "line 3: [environment]: unknown key 'size', expected one of 'width', 'height'",
        ),
        (
            "planar",
            "[objective]\nreward = 'energy'".into(),
            "line 4: 'reward' in [objective] is \"energy\", expected a reward of this problem: one of red, blue",
        ),
        (
            "planar",
            "[train]\nlearner = 'tabular'".into(),
            "line 4: 'learner' in [train] is \"tabular\", expected ppo, policy_gradient or actor_critic",
        ),
        ("wireless", "users = []".into(), "line 3: 'users' of the wireless environment is a list of 0"),
        (
            "wireless",
            "users = [{ name = 'a', gain = 0 }]".into(),
            "line 3: 'users[0].gain' of the wireless environment is 0",
        ),
        (
            "wireless",
            "users = [{ name = 'a<', gain = 1 }]".into(),
            "line 3: 'users[0].name' of the wireless environment is 'a<'",
        ),
        (
            "wireless",
            "users = [{ name = 'a', gain = 1 }, { name = 'a', gain = 1 }]".into(),
            "line 3: 'users[1].name'",
        ),
        (
            "wireless",
            "users = [{ name = 'a' }]".into(),
            "line 3: 'users' in [environment]: missing key 'gain'",
        ),
        ("wireless", "noise = 0".into(), "line 3: 'noise' of the wireless environment is 0"),
        ("wireless", "max_power = -1".into(), "line 3: 'max_power' of the wireless environment is -1"),
        (
            "wireless",
            "correlation = 1".into(),
            "line 3: 'correlation' of the wireless environment is 1, expected a number from 0 to 0.9999",
        ),
        ("wireless", "gain_cap = nan".into(), "line 3: 'gain_cap' of the wireless environment is NaN"),
        ("drone", "width = 0".into(), "line 3: 'width' of the drone environment is 0"),
        ("drone", "height = nan".into(), "line 3: 'height' of the drone environment is NaN"),
        ("drone", "sampling_time = 0".into(), "line 3: 'sampling_time' of the drone environment is 0"),
        ("drone", "thrust = 0".into(), "line 3: 'thrust' of the drone environment is 0"),
        ("drone", "drag = 0".into(), "line 3: 'drag' of the drone environment is 0"),
        (
            "drone",
            "drag = 11".into(),
            "line 3: 'drag' of the drone environment is 11, expected at most 1 / sampling_time = 10",
        ),
        (
            "drone",
            "gust = -0.1".into(),
            "line 3: 'gust' of the drone environment is -0.1, expected a number from 0",
        ),
        ("drone", "gust_correlation = 1".into(), "line 3: 'gust_correlation' of the drone environment is 1"),
        ("drone", "watch_speed = 0".into(), "line 3: 'watch_speed' of the drone environment is 0"),
        (
            "drone",
            region(&format!("name = 'energy', {square}")),
            "line 3: 'regions[0].name' of the drone environment is 'energy'",
        ),
        (
            "drone",
            "home = { shape = 'disc', centre = [5, 5], radius = 9 }".into(),
            "line 3: 'home.centre' of the drone environment",
        ),
    ];
    for (kind, text, expected) in cases {
        let message = message(&environment(kind, &text));
        assert!(message.starts_with(expected), "{message:?} does not begin with {expected:?}");
    }
}

#[test]
fn every_wrong_training_setting_is_said_in_one_sentence() {
    for (text, expected) in [
        (
            "learner = 'sac'",
            "'learner' in [train] is \"sac\", expected one of ppo, policy_gradient, actor_critic, tabular",
        ),
        ("learner = 3", "'learner' in [train] is 3, expected one of ppo"),
        ("steps = 0", "'steps' in [train] is 0, expected a whole number from 1"),
        ("hidden = 64", "'hidden' in [train] is 64, expected a list of 1 to 8 layers' numbers of neurons"),
        ("hidden = []", "'hidden' in [train] is a list of 0, expected a list of 1 to 8"),
        ("hidden = [64, 0]", "a part of 'hidden' in [train] is 0, expected a whole number from 1 to 4096"),
        ("discount = 1", "'discount' in [train] is 1, expected a number above 0 and below 1"),
        ("discount = nan", "'discount' in [train] is nan, expected a number above 0 and below 1"),
        ("step_size = 0", "'step_size' in [train] is 0, expected a finite number above 0"),
        ("hold = 0", "'hold' in [train] is 0, expected a whole number from 1 to 10000"),
        ("targets = 'total'", "'targets' in [train] is \"total\", expected one of discounted, average"),
        ("sampler = 'ball'", "'sampler' in [train] is \"ball\", expected one of dual, simplex, corners, box"),
        ("seed = -1", "'seed' in [train] is -1, expected a whole number from 0"),
    ] {
        let message = message(&environment("planar", &format!("[train]\n{text}")));
        assert!(
            message.starts_with(&format!("line 4: {expected}")),
            "{message:?} does not begin with {expected:?}"
        );
    }
}
