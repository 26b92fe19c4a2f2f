//! What is measured: which product, how many nodes, how fast time passes.

use std::fmt;
use std::str::FromStr;

use upgrade_core::version::Version;

/// Up to how many nodes a case is played at the pace of real machines.
const SMALL: usize = 10;

/// How fast time passes for those that would take hours. A reboot then still
/// takes longer than the second for which talosctl looks away.
const FAST: f64 = 10.0;

/// How many workers may be away at once, for both sides.
pub(crate) const SLOTS: usize = 2;

/// What is upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    Os,
    Kubernetes,
}

/// One upgrade, carried out by both sides.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) product: Product,
    pub(crate) control_planes: usize,
    pub(crate) workers: usize,
}

impl Case {
    pub(crate) fn nodes(&self) -> usize {
        self.control_planes + self.workers
    }

    /// How fast time passes by default.
    pub(crate) fn usual_speed(&self) -> f64 {
        if self.nodes() <= SMALL { 1.0 } else { FAST }
    }

    /// What runs before: Talos and Kubernetes.
    pub(crate) fn from(&self) -> (Version, Version) {
        match self.product {
            Product::Os => (Version::new(1, 13, 12), Version::new(1, 35, 10)),
            Product::Kubernetes => (Version::new(1, 14, 4), Version::new(1, 35, 10)),
        }
    }

    /// What runs afterwards, of the product that is upgraded.
    pub(crate) fn to(&self) -> Version {
        match self.product {
            Product::Os => Version::new(1, 14, 4),
            Product::Kubernetes => Version::new(1, 36, 6),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = match self.product {
            Product::Os => "os",
            Product::Kubernetes => "k8s",
        };
        write!(f, "{product}-{}+{}", self.control_planes, self.workers)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a case: write it like os-3+5 or k8s-3+50");
        let (product, nodes) = text.split_once('-').ok_or_else(wrong)?;
        let product = match product {
            "os" => Product::Os,
            "k8s" | "kubernetes" => Product::Kubernetes,
            _ => return Err(wrong()),
        };
        let (control_planes, workers) = nodes.split_once('+').ok_or_else(wrong)?;
        let control_planes: usize = control_planes.parse().map_err(|_| wrong())?;
        let workers: usize = workers.parse().map_err(|_| wrong())?;
        // One or two have no quorum to keep, and more workers than this is
        // another benchmark's affair.
        if !(3..=7).contains(&control_planes) || workers > 200 {
            return Err(format!(
                "`{text}` is too small or too large: 3 to 7 control planes, up to 200 workers"
            ));
        }
        Ok(Self { product, control_planes, workers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_written_as_it_is_read() {
        for text in ["os-3+0", "os-3+50", "k8s-3+5"] {
            assert_eq!(text.parse::<Case>().unwrap().to_string(), text);
        }
        assert_eq!("kubernetes-5+2".parse::<Case>().unwrap().to_string(), "k8s-5+2");
        for text in ["", "os", "os-3", "windows-3+5", "os-1+5", "os-3+5000", "os-a+b"] {
            assert!(text.parse::<Case>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_large_ones_are_played_faster() {
        let speed = |text: &str| text.parse::<Case>().unwrap().usual_speed();
        assert!((speed("os-3+5") - 1.0).abs() < f64::EPSILON);
        assert!((speed("os-3+50") - FAST).abs() < f64::EPSILON);
    }
}
