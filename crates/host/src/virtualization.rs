//! The hypervisor and the container manager under which this system runs.

use crate::roots::Roots;

/// Parts of DMI names (SMBIOS, system vendor and product) with the names of their hypervisors.
const PRODUCTS: &[(&str, &str)] = &[
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("innotek", "VirtualBox"),
    ("Xen", "Xen"),
    ("Virtual Machine", "Hyper-V"),
    ("Google Compute Engine", "KVM (Google Compute Engine)"),
    ("Amazon EC2", "KVM (Amazon EC2)"),
    ("OpenStack", "KVM (OpenStack)"),
    ("Bochs", "Bochs"),
    ("Parallels", "Parallels"),
    ("Apple Virtualization", "Apple Virtualization"),
];

/// Clock sources that only a guest has.
const CLOCKS: &[(&str, &str)] = &[
    ("kvm-clock", "KVM"),
    ("hyperv_clocksource", "Hyper-V"),
    ("xen", "Xen"),
];

/// Parts of cgroup paths that container managers make.
const MANAGERS: &[(&str, &str)] = &[
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
    ("machine.slice", "systemd-nspawn"),
];

/// Their names, such as `KVM, container (docker)`; none where neither is recognised.
pub(crate) fn name(roots: &Roots) -> Option<String> {
    let parts: Vec<String> = [hypervisor(roots), container(roots)]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn hypervisor(roots: &Roots) -> Option<String> {
    if let Ok(kind) = roots.sys("hypervisor/type")
        && !kind.is_empty()
    {
        return Some(kind);
    }
    let dmi = |name: &str| {
        roots
            .sys(&format!("class/dmi/id/{name}"))
            .unwrap_or_default()
    };
    let product = dmi("product_name");
    // The bare-metal machines of a cloud have its name as well.
    let is_bare_metal = product.ends_with(".metal");
    let machine = format!("{} {product}", dmi("sys_vendor"));
    let find = |table: &[(&str, &str)], text: &str| {
        let row = table.iter().find(|(part, _)| text.contains(part));
        row.map(|(_, name)| (*name).to_owned())
    };
    if !is_bare_metal && let Some(name) = find(PRODUCTS, &machine) {
        return Some(name);
    }
    let clocks = roots
        .sys("devices/system/clocksource/clocksource0/available_clocksource")
        .unwrap_or_default();
    if let Some(name) = find(CLOCKS, &clocks) {
        return Some(name);
    }
    // The device tree of Arm guests names the hypervisor.
    if let Ok(compatible) = roots.proc("device-tree/hypervisor/compatible") {
        let name = compatible.replace('\0', " ");
        return Some(name.trim().trim_start_matches("linux,").to_owned());
    }
    let cpuinfo = roots.proc("cpuinfo").unwrap_or_default();
    let flagged = cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    flagged.then(|| "a hypervisor".to_owned())
}

fn container(roots: &Roots) -> Option<String> {
    let cgroups = ["self/cgroup", "1/cgroup"].map(|path| roots.proc(path).unwrap_or_default());
    let managed = MANAGERS
        .iter()
        .find(|(part, _)| cgroups.iter().any(|text| text.contains(part)));
    if let Some((_, name)) = managed {
        return Some(format!("container ({name})"));
    }
    // proc_pid_mountinfo(5): the fifth field is the mount point, the type follows ` - `.
    let mounts = roots.proc("self/mountinfo").unwrap_or_default();
    let overlay = mounts
        .lines()
        .any(|line| line.split_whitespace().nth(4) == Some("/") && line.contains(" - overlay "));
    overlay.then(|| "container".to_owned())
}
