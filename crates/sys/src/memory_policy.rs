//! The memory node from which a thread allocates, set_mempolicy(2).

use std::io;

use crate::syscall::checked;

/// One more than the largest node number that can be set.
pub const MOST_NODES: u32 = 1024;

/// Words of the kernel's node mask.
const WORDS: usize = MOST_NODES as usize / usize::BITS as usize;
/// The number of bits that is passed; the kernel reads one less.
const MAXNODE: libc::c_ulong = MOST_NODES as libc::c_ulong + 1;

/// Binds the calling thread, and those that it starts later, to the memory of one node (MPOL_BIND): it
/// applies to pages that are touched from now on. `InvalidInput` if the node has no memory or is not
/// allowed, `Unsupported` if the kernel is built without nodes.
pub fn bind(node: u32) -> io::Result<()> {
    if node >= MOST_NODES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut mask = [0usize; WORDS];
    mask[node as usize / usize::BITS as usize] |= 1 << (node % usize::BITS);
    let mode = libc::MPOL_BIND as libc::c_long;
    // SAFETY: `mask` is valid for reads of MAXNODE - 1 bits for the length of the call.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), MAXNODE) };
    checked(result).map(drop)
}

/// The nodes to which the calling thread is bound, ascending, get_mempolicy(2); empty if it is not
/// bound. `Unsupported` if the kernel is built without nodes.
pub fn bound() -> io::Result<Vec<u32>> {
    let mut mask = [0usize; WORDS];
    let mut mode: libc::c_int = 0;
    // SAFETY: `mode` and `mask` are valid for writes of an int and of MAXNODE - 1 bits.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            mask.as_mut_ptr(),
            MAXNODE,
            0usize,
            0usize,
        )
    };
    checked(result)?;
    let is_set = |n: &u32| mask[*n as usize / usize::BITS as usize] >> (n % usize::BITS) & 1 == 1;
    Ok((0..MOST_NODES).filter(is_set).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The node of the page with this byte, get_mempolicy(2) with MPOL_F_NODE | MPOL_F_ADDR.
    fn node_of(byte: &u8) -> io::Result<u32> {
        const MPOL_F_NODE: libc::c_ulong = 1;
        const MPOL_F_ADDR: libc::c_ulong = 2;
        let mut node: libc::c_int = -1;
        // SAFETY: `node` is valid for writes of an int; the address is that of a live byte, which
        // the call may read and does not write.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                0usize,
                0 as libc::c_ulong,
                std::ptr::from_ref(byte),
                MPOL_F_NODE | MPOL_F_ADDR,
            )
        };
        checked(result)?;
        u32::try_from(node).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    #[test]
    fn memory_comes_from_the_bound_node() {
        std::thread::spawn(|| {
            let old = match bound() {
                // A kernel without nodes, or a seccomp filter that forbids the call.
                Err(e) if e.raw_os_error().is_some() => return,
                other => other.unwrap(),
            };
            assert_eq!(old, [0u32; 0]);
            let here = node_of(&vec![1u8; 1 << 20][4096]).unwrap();
            bind(here).unwrap();
            assert_eq!(bound().unwrap(), [here]);
            let memory = vec![1u8; 4 << 20];
            assert_eq!(node_of(&memory[2 << 20]).unwrap(), here);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn missing_nodes_are_errors() {
        for node in [1023, 1024, u32::MAX] {
            assert!(bind(node).is_err(), "{node}");
        }
    }
}
