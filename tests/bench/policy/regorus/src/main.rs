// SPDX-License-Identifier: GPL-2.0-or-later
// bench-regorus REGO DATA.json INPUTS.jsonl SECONDS: "ALLOWED OF NS" on standard output.

// CPU time of this process in seconds, so that other work on the machine does not count.
fn now() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut e = regorus::Engine::new();
    e.add_policy("bench.rego".into(), std::fs::read_to_string(&a[1]).unwrap()).unwrap();
    e.add_data(regorus::Value::from_json_str(&std::fs::read_to_string(&a[2]).unwrap()).unwrap()).unwrap();
    let inputs: Vec<regorus::Value> = std::fs::read_to_string(&a[3]).unwrap().lines()
        .map(|l| regorus::Value::from_json_str(l).unwrap()).collect();
    let seconds: f64 = a[4].parse().unwrap();
    let (mut n, mut allowed) = (0usize, 0usize);
    let start = now();
    while n < inputs.len() || now() - start < seconds {
        e.set_input(inputs[n % inputs.len()].clone());
        let yes = e.eval_rule("data.bench.allow".into()).unwrap() == regorus::Value::from(true);
        if n < inputs.len() && yes { allowed += 1; }
        n += 1;
    }
    println!("{} {} {:.0}", allowed, inputs.len(), (now() - start) * 1e9 / n as f64);
}
