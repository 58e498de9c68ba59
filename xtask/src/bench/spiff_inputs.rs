//! Generates the larger inputs of the spiff bench in any size. The same numbers give the same text.

use std::fmt::Write as _;

const ZONES: [&str; 3] = ["a", "b", "c"];
const TIERS: [&str; 4] = ["edge", "core", "batch", "data"];
const WORDS: [&str; 8] = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"];

/// Returns `nodes` nodes in services of ten. Each node refers to its predecessor, in chains of
/// twenty services.
pub(super) fn chain(nodes: usize) -> String {
    let mut text = format!("# Service landscape: {nodes} nodes in chains of references.\n");
    text.push_str("defaults:\n  domain: svc.example.org\n  port: 8000\n  weight: 10\n  stage: live\n");
    text.push_str("fn:\n  <<: (( &temporary ))\n  url: (( |h,p|->\"https://\" h \":\" p \"/api\" ))\n");
    text.push_str("  clamp: (( |v,m|->v > m ? v % m :v ))\nservices:\n");
    for service in 0..nodes / 10 {
        let first = service % 20 == 0;
        let before = if first { "defaults".to_owned() } else { format!("services.s{:04}", service - 1) };
        let (word, tier) = (WORDS[service % 8], TIERS[service % 4]);
        let path = if first { "\"root\"".to_owned() } else { format!("{before}.path") };
        let upstream = if first { "~~".to_owned() } else { format!("{before}.url") };
        let weight = 3 + service % 7;
        let _ = write!(
            text,
            "  s{service:04}:\n    name: {word}-{tier}\n    host: (( name \".\" defaults.domain ))\n    \
             port: (( {before}.port + 1 ))\n    url: (( fn.url(host, port) ))\n    \
             weight: (( fn.clamp({before}.weight + {weight}, 100) ))\n    replicas: (( weight > 50 ? 3 :1 ))\n    \
             path: (( {path} \"/{word}\" ))\n    \
             stage: (( defaults.stage == \"live\" -and replicas > 1 ? \"ha\" :\"single\" ))\n    \
             upstream: (( {upstream} || \"none\" ))\n    label: (( name \"-\" stage \"-\" replicas ))\n"
        );
    }
    text
}

/// Returns calls of functions over `entries` entries.
pub(super) fn collections(entries: usize) -> String {
    let mut text = format!("# Collection functions over {entries} entries.\n");
    text.push_str("total: (( sum[entries|0|acc,e|->acc + e.cpu * e.count] ))\n");
    text.push_str("names: (( map[entries|e|->e.name \"/\" e.zone] ))\n");
    text.push_str("large: (( map[select[entries|e|->e.cpu > 12]|e|->e.name] ))\n");
    text.push_str(
        "sizes: (( sort(map[entries|e|->e.count]) ))\nbyName: (( sort(map[entries|i,e|->e.label]) ))\n",
    );
    text.push_str("perZone:\n");
    for zone in ZONES {
        let _ = writeln!(
            text,
            "  {zone}: (( sum[select[entries|e|->e.zone == \"{zone}\"]|0|acc,e|->acc + e.cpu] ))"
        );
    }
    text.push_str(
        "summary: (( \"entries \" length(entries) \" total \" total \" large \" length(large) ))\nentries:\n",
    );
    let mut random: usize = 12_345;
    for entry in 0..entries {
        random = (random * 1_103_515_245 + 12_345) % (1 << 31);
        let (zone, word) = (ZONES[(random >> 8) % 3], WORDS[(random >> 20) % 8]);
        let (cpu, count, label) = (1 + (random >> 12) % 16, 1 + (random >> 16) % 9, random % 100_000);
        let _ = writeln!(
            text,
            "- {{ name: n{entry:06}, zone: {zone}, cpu: {cpu}, count: {count}, label: {word}-{label} }}"
        );
    }
    text
}

/// Returns a template with `entries` entries keyed by name, and four stubs that each set fields of
/// their own and override one of the stub before. Each is shuffled differently, so that a match by
/// position is never right by chance.
pub(super) fn cascade(entries: usize) -> Vec<String> {
    let mut template = format!(
        "# Template: {entries} keyed entries.\nmeta:\n  domain: example.org\n  cluster: none\nnodes:\n"
    );
    for entry in 0..entries {
        let _ = write!(
            template,
            "- name: node-{entry:05}\n  image: base:1\n  cpu: 1\n  zone: none\n  host: (( name \".\" meta.domain ))\n  owner: nobody\n"
        );
    }
    let stubs = [(1, 1), (2, 2), (3, 4), (4, 8)].map(|(number, every)| stub(number, every, entries));
    std::iter::once(template).chain(stubs).collect()
}

fn stub(number: usize, every: usize, entries: usize) -> String {
    let meta = if number < 3 { format!("cluster: c{number}") } else { format!("stubLevel{number}: true") };
    let mut text = format!("# Stub {number}: every {every}. entry.\nmeta:\n  {meta}\nnodes:\n");
    let count = entries.div_ceil(every);
    let stride =
        [7_919, 104_729, 1_299_709].into_iter().find(|prime| !count.is_multiple_of(*prime)).unwrap_or(1);
    for position in 0..count {
        let entry = (position * stride + number) % count * every;
        let _ = writeln!(text, "- name: node-{entry:05}");
        let _ = match number {
            1 => write!(text, "  image: app:{}\n  cpu: {}\n", entry % 17, 2 + entry % 6),
            2 => write!(text, "  cpu: {}\n  zone: {}\n", 10 + entry % 6, ZONES[entry % 3]),
            3 => write!(text, "  zone: edge-{}\n  owner: team-{}\n", ZONES[entry % 3], entry % 11),
            _ => writeln!(text, "  owner: user-{}", entry % 101),
        };
    }
    text
}

/// Returns keys that each refer to the following one, with a literal only at the end, so that each
/// pass resolves one key.
pub(super) fn worst_order(links: usize) -> String {
    let mut text = format!("# Chain of {links} references in the order that needs most passes.\n");
    for link in 1..links {
        let _ = writeln!(text, "k{:05}: (( k{link:05} + 1 ))", link - 1);
    }
    let _ = writeln!(text, "k{:05}: 0", links - 1);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_inputs_are_those_of_the_generators() {
        assert_eq!(chain(400), include_str!("../../../benches/spiff/chain.yaml"));
        assert_eq!(worst_order(500), include_str!("../../../benches/spiff/worst-order.yaml"));
        assert!(collections(5_000).contains("- { name: n000000, zone: "));
        assert_eq!(cascade(1_000).len(), 5);
    }
}
