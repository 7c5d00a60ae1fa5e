//! The binding of a thread to CPUs, to the memory of a node and to a scheduler class.

use std::io;

use bytecost_spec::{Class, Held};
use bytecost_sys::{memory_policy, process};

use crate::classes;

/// The binding of the calling thread, which can be compared with the kernel's state of the thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadBinding {
    /// True if the cell has CPUs, a node or a class for the thread.
    is_bound: bool,
    mem_node: Option<u32>,
    class: Class,
}

impl ThreadBinding {
    /// Binds the calling thread to a set of CPUs, and to the memory of a node. Flows use the sets in turn.
    /// The thread must not have touched its memory before.
    pub(crate) fn bind(
        pins: &[Vec<u32>],
        flow: u32,
        mem_node: Option<u32>,
    ) -> io::Result<ThreadBinding> {
        let pin = pins.get(flow as usize % pins.len().max(1));
        if let Some(cpus) = pin {
            process::set_affinity(cpus)?;
            // The kernel silently leaves out CPUs that are offline or not allowed.
            let allowed = process::affinity()?;
            if let Some(missing) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("CPU {missing} is not available, of {cpus:?}"),
                ));
            }
        }
        if let Some(node) = mem_node {
            memory_policy::bind(node)
                .map_err(|e| io::Error::new(e.kind(), format!("memory of node {node}: {e}")))?;
        }
        Ok(ThreadBinding {
            is_bound: pin.is_some() || mem_node.is_some(),
            mem_node,
            class: Class::default(),
        })
    }

    /// Sets the class of the calling thread too.
    pub(crate) fn with_class(self, class: Class) -> io::Result<ThreadBinding> {
        classes::enter(class)?;
        Ok(ThreadBinding {
            is_bound: self.is_bound || class != Class::default(),
            class,
            ..self
        })
    }

    /// The CPUs, node and class of the calling thread by the kernel; none if it is not bound.
    pub(crate) fn held(self) -> io::Result<Option<Held>> {
        if !self.is_bound {
            return Ok(None);
        }
        self.current().map(Some)
    }

    /// The CPUs, node and class of the calling thread by the kernel.
    pub(crate) fn current(self) -> io::Result<Held> {
        Ok(Held {
            cpus: process::affinity()?,
            last_cpu: process::current_cpu(),
            memory_node: match self.mem_node {
                None => None,
                Some(_) => memory_policy::bound()?.first().copied(),
            },
            class: match self.class {
                class if class == Class::default() => None,
                _ => Some(classes::current()?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn flows_take_the_sets_in_turn() {
        let all = process::affinity().unwrap();
        let pins: Vec<Vec<u32>> = all.iter().map(|cpu| vec![*cpu]).collect();
        for flow in 0..2 * all.len() {
            let held = on_a_thread(|| {
                let binding = ThreadBinding::bind(&pins, flow as u32, None).unwrap();
                binding.held().unwrap().unwrap()
            });
            let cpu = all[flow % all.len()];
            assert_eq!((held.cpus, held.last_cpu), (vec![cpu], cpu));
            assert_eq!(held.memory_node, None);
        }
        let free = on_a_thread(|| ThreadBinding::bind(&[], 0, None).unwrap().held().unwrap());
        assert_eq!(free, None);
    }

    #[test]
    fn a_class_is_reported_as_the_kernel_has_it() {
        let class = Class::Batch(7);
        let held = on_a_thread(|| {
            let binding = ThreadBinding::bind(&[], 0, None).unwrap();
            binding.with_class(class).unwrap().held().unwrap().unwrap()
        });
        assert_eq!(held.class, Some(class));
    }

    #[test]
    fn a_mask_that_the_kernel_applies_in_part_is_an_error() {
        let first = process::affinity().unwrap()[0];
        for (pins, needle) in [
            (vec![first, 1023], "CPU 1023 is not available"),
            (vec![1023], "CPUs [1023]"),
            (vec![5000], "numbers end at 1023"),
        ] {
            let error = on_a_thread(|| ThreadBinding::bind(&[pins], 0, None).unwrap_err());
            assert!(error.to_string().contains(needle), "{error}");
        }
    }

    #[test]
    fn memory_is_bound_to_its_node() {
        let on = |node| on_a_thread(|| ThreadBinding::bind(&[], 0, Some(node))?.held());
        match on(0) {
            Ok(held) => assert_eq!(held.unwrap().memory_node, Some(0)),
            // A kernel without nodes.
            Err(e) => assert!(e.to_string().starts_with("memory of node 0"), "{e}"),
        }
        let error = on(1000).unwrap_err().to_string();
        assert!(error.starts_with("memory of node 1000"), "{error}");
    }
}
