//! Names of file systems by their magic numbers, statfs(2).

/// Magic numbers with the names that mount(8) has for them. Source: include/uapi/linux/magic.h; those
/// that are not there stand in the file system's own source (xfs, zfs, cifs, mqueue).
const NAMES: &[(u32, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x1980_0202, "mqueue"),
];

/// The name of a file system by the field `f_type` of statfs(2) or `s_magic` of the kernel's
/// superblock; the magic numbers have 32 bits. None for one that is not in the table.
///
/// ```
/// use bytecost_sys::file_system;
/// assert_eq!(file_system::name(0x0102_1994), Some("tmpfs"));
/// assert_eq!(file_system::name(1), None);
/// ```
pub fn name(magic: u32) -> Option<&'static str> {
    let row = NAMES.iter().find(|(number, _)| *number == magic)?;
    Some(row.1)
}

/// The name of a file system, else its magic number in hexadecimal.
pub fn name_or_number(magic: u32) -> String {
    name(magic).map_or_else(|| format!("{magic:#x}"), str::to_owned)
}

/// Returns true if files of this file system are in memory alone (tmpfs and ramfs).
pub fn is_in_memory(magic: u32) -> bool {
    matches!(name(magic), Some("tmpfs" | "ramfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_and_each_name_stands_once() {
        for (i, (magic, name)) in NAMES.iter().enumerate() {
            assert!(
                NAMES[..i].iter().all(|(m, n)| m != magic && n != name),
                "{name}"
            );
        }
    }

    #[test]
    fn proc_has_its_own_number() {
        let stat = rustix::fs::statfs("/proc/self").unwrap();
        assert_eq!(name(stat.f_type as u32), Some("proc"));
        assert!(!is_in_memory(stat.f_type as u32));
    }
}
