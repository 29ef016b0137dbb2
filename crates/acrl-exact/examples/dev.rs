//! dev
fn main() {
    let dir = std::env::args().nth(1).unwrap();
    let read = |n: &str| std::fs::read(format!("{dir}/{n}")).unwrap();
    let i64s = |n: &str| {
        read(n)
            .chunks_exact(8)
            .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as usize)
            .collect::<Vec<_>>()
    };
    let f64s = |n: &str| {
        read(n).chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
    };
    let (first_choice, indptr, indices, data, rewards) =
        (i64s("first_choice"), i64s("indptr"), i64s("indices"), f64s("data"), f64s("rewards"));
    let text = String::from_utf8(read("names")).unwrap();
    let names: Vec<&str> = text.lines().collect();
    let k = names.len();
    let mut b = acrl::FiniteCmdp::builder(names.iter().map(|n| n.to_string()));
    let n = first_choice.len() - 1;
    for _ in 0..n {
        b.state("");
    }
    for s in 0..n {
        for c in first_choice[s]..first_choice[s + 1] {
            let to: Vec<(usize, f64)> = (indptr[c]..indptr[c + 1]).map(|i| (indices[i], data[i])).collect();
            b.choice(s, (c - first_choice[s]).to_string(), &to, &rewards[c * k..(c + 1) * k]);
        }
    }
    let model = b.build().unwrap();
    let spec = String::from_utf8(read("spec")).unwrap();
    let mut lines = spec.lines();
    let o = lines.next().unwrap();
    let objective = if o == "jobs" { acrl::Objective::minimize(o) } else { acrl::Objective::maximize(o) };
    let reqs = lines
        .map(|l| {
            let (n, c) = l.split_once(' ').unwrap();
            let c: f64 = c.parse().unwrap();
            if let Some(n) = n.strip_prefix('<') {
                acrl::Requirement::at_most(n, c).unwrap()
            } else {
                acrl::Requirement::at_least(n, c).unwrap()
            }
        })
        .collect();
    let spec = acrl::Specification::new(Some(objective), reqs).unwrap();
    let task = acrl_exact::FiniteTask::new(&model, &spec).unwrap();
    let start = std::time::Instant::now();
    let verbose = std::env::args().nth(2).is_some();
    let answer = acrl_exact::solve(&task, &acrl_exact::SolveOptions::default(), &mut |r| {
        if verbose {
            eprintln!("{r:?} {:.2}", start.elapsed().as_secs_f64());
        }
        std::ops::ControlFlow::Continue(())
    });
    match answer {
        Ok(acrl_exact::Answer::Optimal(o)) => println!(
            "{} in [{}, {}] gap {:.2e} rounds {} {:?} {:.2}s",
            o.objective,
            o.lower,
            o.upper,
            o.gap,
            o.rounds,
            o.multipliers,
            start.elapsed().as_secs_f64()
        ),
        Ok(acrl_exact::Answer::Infeasible(c)) => println!("infeasible {:?} {:?}", c.names, c.relaxation),
        Err(e) => println!("{e}"),
    }
    let t = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = t.split(' ').collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!(
        "cpu user {} sys {} (1/100 s)  {}",
        f[13],
        f[14],
        status.lines().find(|l| l.starts_with("VmHWM")).unwrap()
    );
}
