//! The shortest cycle of a directed graph.

/// Edges that may be looked at. Only graphs with hundreds of thousands of edges and no short cycle need more; for those, the
/// shortest cycle found by then is good enough to act on.
const MOST_STEPS: usize = 50_000_000;

/// The shortest cycle, beginning at its smallest node; of several, the one that comes first when they are compared node by node.
///
/// `successors` holds the edges of every node, ascending. Nodes are searched from the smallest up, and one that has been searched
/// from is taken out: so a cycle is found from its smallest node, and a ring of any size is done after one search.
pub(super) fn shortest_cycle(successors: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut live = Live::new(successors);
    let mut search = Search::new(successors);
    let mut best: Option<Vec<usize>> = None;
    for start in 0..successors.len() {
        let longest = best.as_ref().map_or(usize::MAX, |cycle| cycle.len() - 1);
        if longest == 0 || (best.is_some() && search.steps > MOST_STEPS) {
            break;
        }
        if live.contains(start) {
            best = search.through(start, &live, longest).or(best);
            live.take_out(vec![start]);
        }
    }
    best
}

/// The nodes that may still be on a cycle: each has an edge from one and to one of them.
struct Live<'a> {
    successors: &'a [Vec<usize>],
    predecessors: Vec<Vec<usize>>,
    contained: Vec<bool>,
    /// How many edges lead to live nodes, and come from live nodes.
    outgoing: Vec<usize>,
    incoming: Vec<usize>,
}

impl<'a> Live<'a> {
    fn new(successors: &'a [Vec<usize>]) -> Self {
        let mut predecessors = vec![Vec::new(); successors.len()];
        for (node, targets) in successors.iter().enumerate() {
            for target in targets {
                predecessors[*target].push(node);
            }
        }
        let outgoing: Vec<usize> = successors.iter().map(Vec::len).collect();
        let incoming: Vec<usize> = predecessors.iter().map(Vec::len).collect();
        let ends = (0..successors.len()).filter(|node| outgoing[*node] == 0 || incoming[*node] == 0);
        let ends = ends.collect();
        let contained = vec![true; successors.len()];
        let mut live = Self { successors, predecessors, contained, outgoing, incoming };
        live.take_out(ends);
        live
    }

    fn contains(&self, node: usize) -> bool {
        self.contained[node]
    }

    /// Takes nodes out, and whatever cannot be on a cycle without them.
    fn take_out(&mut self, mut open: Vec<usize>) {
        while let Some(node) = open.pop() {
            if !std::mem::take(&mut self.contained[node]) {
                continue;
            }
            for target in &self.successors[node] {
                self.incoming[*target] -= 1;
                if self.incoming[*target] == 0 {
                    open.push(*target);
                }
            }
            for origin in &self.predecessors[node] {
                self.outgoing[*origin] -= 1;
                if self.outgoing[*origin] == 0 {
                    open.push(*origin);
                }
            }
        }
    }
}

/// Breadth-first searches over one graph; their memory is used again.
struct Search<'a> {
    successors: &'a [Vec<usize>],
    /// The start of the search that has met a node last.
    met_from: Vec<usize>,
    /// How that search came to the node.
    previous: Vec<usize>,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(successors: &'a [Vec<usize>]) -> Self {
        let nodes = successors.len();
        Self { successors, met_from: vec![usize::MAX; nodes], previous: vec![0; nodes], steps: 0 }
    }

    /// The shortest cycle through `start` among the live nodes, if it has at most `longest` nodes.
    fn through(&mut self, start: usize, live: &Live<'_>, longest: usize) -> Option<Vec<usize>> {
        let mut queue = vec![start];
        self.met_from[start] = start;
        let mut next = 0;
        // The nodes of the queue up to here are this far from the start.
        let (mut distance, mut level_end) = (0, 1);
        while next < queue.len() {
            if next == level_end {
                (distance, level_end) = (distance + 1, queue.len());
            }
            if distance >= longest {
                return None;
            }
            let node = queue[next];
            next += 1;
            self.steps += self.successors[node].len() + 1;
            if self.successors[node].binary_search(&start).is_ok() {
                return Some(self.way(start, node));
            }
            for target in &self.successors[node] {
                if live.contains(*target) && self.met_from[*target] != start {
                    self.met_from[*target] = start;
                    self.previous[*target] = node;
                    queue.push(*target);
                }
            }
        }
        None
    }

    fn way(&self, start: usize, end: usize) -> Vec<usize> {
        let mut way = vec![end];
        let mut node = end;
        while node != start {
            node = self.previous[node];
            way.push(node);
        }
        way.reverse();
        way
    }
}
