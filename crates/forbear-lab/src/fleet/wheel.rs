//! A timer wheel: what is to happen later, found again in constant time.

/// Ticks in a turn: a power of two. What lies further ahead stays for more than one turn.
const SLOTS: usize = 4_096;

/// No node.
const NIL: u32 = u32::MAX;

/// A list of nodes, first in first out.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NIL, last: NIL };

#[derive(Debug)]
struct Node<T> {
    due: u64,
    next: u32,
    item: Option<T>,
}

/// Items by the tick in which they are due; those of one tick come back in the order in which they were put in.
///
/// Nodes are used again, so a wheel allocates only when it holds more than ever before.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    slots: Vec<List>,
    nodes: Vec<Node<T>>,
    free: u32,
    held: usize,
}

impl<T> Wheel<T> {
    pub(super) fn new() -> Self {
        Self { slots: vec![EMPTY; SLOTS], nodes: Vec::new(), free: NIL, held: 0 }
    }

    /// Puts in what is due at tick `due`, which must not have been taken yet.
    pub(super) fn insert(&mut self, due: u64, item: T) {
        let node = Node { due, next: NIL, item: Some(item) };
        let at = if self.free == NIL {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            at
        };
        self.held += 1;
        self.append(due, at);
    }

    /// Takes out all that is due at `tick`, in order. Every tick must be asked for, one after the other.
    pub(super) fn take(&mut self, tick: u64, into: &mut Vec<T>) {
        if self.held == 0 {
            return;
        }
        let slot = tick as usize % SLOTS;
        let mut at = core::mem::replace(&mut self.slots[slot], EMPTY).first;
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            let next = node.next;
            node.next = NIL;
            if node.due == tick {
                into.extend(node.item.take());
                node.next = self.free;
                self.free = at;
                self.held -= 1;
            } else {
                let due = node.due;
                self.append(due, at);
            }
            at = next;
        }
    }

    fn append(&mut self, due: u64, at: u32) {
        let list = &mut self.slots[due as usize % SLOTS];
        if list.last == NIL {
            list.first = at;
        } else {
            self.nodes[list.last as usize].next = at;
        }
        list.last = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_each_item_in_its_tick_and_in_order() {
        let mut wheel = Wheel::new();
        let turn = SLOTS as u64;
        let plan = [(3, 'a'), (turn + 3, 'b'), (3, 'c'), (2 * turn + 3, 'd'), (0, 'e'), (turn, 'f'), (turn + 3, 'g')];
        for (due, item) in plan {
            wheel.insert(due, item);
        }
        let mut seen = Vec::new();
        for tick in 0..3 * turn {
            let mut due = Vec::new();
            wheel.take(tick, &mut due);
            seen.extend(due.into_iter().map(|item| (tick, item)));
        }
        assert_eq!(
            seen,
            [(0, 'e'), (3, 'a'), (3, 'c'), (turn, 'f'), (turn + 3, 'b'), (turn + 3, 'g'), (2 * turn + 3, 'd')]
        );
        assert_eq!(wheel.held, 0);
    }

    #[test]
    fn uses_its_nodes_again() {
        let mut wheel = Wheel::new();
        let mut due = Vec::new();
        for tick in 0..10_000 {
            wheel.take(tick, &mut due);
            wheel.insert(tick + 7, tick);
        }
        assert!(wheel.nodes.len() <= 8, "{} nodes", wheel.nodes.len());
        assert_eq!(due.len(), 10_000 - 7);
    }
}
