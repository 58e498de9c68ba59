//! Search for the shortest cycle of a directed graph.

/// Largest number of visited edges. Only a graph with hundreds of thousands of edges and no short
/// cycle needs more. In such a graph, the shortest cycle found so far is good enough for the
/// message.
const MOST_STEPS: usize = 50_000_000;

/// Returns the shortest cycle, beginning at its smallest node. Of several, returns the first one in
/// node order.
///
/// `successors` contains the edges of every node, ascending. The search starts from each node in
/// ascending order and removes the node afterwards. So each cycle is found from its smallest node,
/// and a ring of any size needs one search only.
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

/// Nodes that may still be on a cycle: each has an edge from a live node and an edge to a live
/// node.
struct Live<'a> {
    successors: &'a [Vec<usize>],
    predecessors: Vec<Vec<usize>>,
    contained: Vec<bool>,
    /// Number of edges to live nodes.
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

    /// Removes nodes, and all nodes that cannot be on a cycle without them.
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

/// Breadth-first searches over one graph, with reused memory.
struct Search<'a> {
    successors: &'a [Vec<usize>],
    /// Start node of the last search that reached a node.
    met_from: Vec<usize>,
    /// Predecessor of a node in that search.
    previous: Vec<usize>,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(successors: &'a [Vec<usize>]) -> Self {
        let nodes = successors.len();
        Self { successors, met_from: vec![usize::MAX; nodes], previous: vec![0; nodes], steps: 0 }
    }

    /// Returns the shortest cycle through `start` among the live nodes, if it has at most `longest`
    /// nodes.
    fn through(&mut self, start: usize, live: &Live<'_>, longest: usize) -> Option<Vec<usize>> {
        let mut queue = vec![start];
        self.met_from[start] = start;
        let mut next = 0;
        // Nodes of the queue before `level_end` are at most `distance` from the start.
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
