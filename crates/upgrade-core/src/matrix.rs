//! The support matrix (rule 13): which hosts a Talos release accepts, and which
//! Kubernetes versions it runs.
//!
//! The rows live in `matrix.toml`; this file reads and asks them. A caller may
//! bring a newer table of the same form.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::version::{Minor, Version};

const BUILTIN: &str = include_str!("matrix.toml");

/// One line of the table: what the Talos release line `talos` accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The release line that is upgraded to, or that runs Kubernetes.
    pub talos: Minor,
    /// The minor of the etcd that it brings.
    pub etcd: Minor,
    /// The oldest version that it is safely upgraded from, where that is more
    /// than its installer checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_at_least: Option<Version>,
    /// The oldest host that may upgrade to it.
    pub host_min: Version,
    /// The first host version that is too new to go (back) to it.
    pub host_max: Version,
    /// The oldest Kubernetes it runs.
    pub kubernetes_min: Version,
    /// The first Kubernetes version that is too new for it.
    pub kubernetes_max: Version,
    /// Whether the line was out when the table was written.
    #[serde(default = "yes")]
    pub released: bool,
}

fn yes() -> bool {
    true
}

impl Row {
    /// Whether a node running `host` may be moved to this line.
    pub fn accepts_host(&self, host: &Version) -> bool {
        let host = host.release();
        host >= self.host_min && host < self.host_max
    }

    /// The version that a node running `host` has to pass first, if there is one:
    /// the installer does not check it, and what follows is not safe without it.
    pub fn passes_first(&self, host: &Version) -> Option<&Version> {
        self.from_at_least.as_ref().filter(|first| host.release() < **first)
    }

    /// Whether this line runs `kubernetes`.
    pub fn runs(&self, kubernetes: &Version) -> bool {
        let kubernetes = kubernetes.release();
        kubernetes >= self.kubernetes_min && kubernetes < self.kubernetes_max
    }

    /// The oldest and newest Kubernetes minors this line runs.
    pub fn kubernetes_minors(&self) -> (Minor, Minor) {
        let bound = self.kubernetes_max.minor();
        // The bound itself is excluded: `1.38.0` means up to 1.37.
        let newest = if self.kubernetes_max.patch() == 0 { bound.previous() } else { bound };
        (self.kubernetes_min.minor(), newest)
    }
}

/// The whole table, ordered by Talos line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    #[serde(rename = "row")]
    rows: Vec<Row>,
}

/// A table that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MatrixError {
    /// Not the form of `matrix.toml`.
    #[error("support matrix: {0}")]
    Unreadable(String),
    /// A line is listed twice, or the lines are out of order.
    #[error("support matrix: Talos {0} stands out of order; list each line once, oldest first")]
    OutOfOrder(Minor),
    /// A range that no version can satisfy.
    #[error("support matrix: the {what} range of Talos {talos} is empty")]
    EmptyRange {
        /// The line.
        talos: Minor,
        /// `host` or `Kubernetes`.
        what: &'static str,
    },
}

impl Matrix {
    /// The table this program was built with.
    pub fn builtin() -> Self {
        Self::from_toml(BUILTIN).expect("the built-in matrix is checked by a test")
    }

    /// Reads a table of the same form as the built-in one.
    pub fn from_toml(text: &str) -> Result<Self, MatrixError> {
        let matrix: Self =
            toml::from_str(text).map_err(|error| MatrixError::Unreadable(error.to_string()))?;
        for pair in matrix.rows.windows(2) {
            if pair[0].talos >= pair[1].talos {
                return Err(MatrixError::OutOfOrder(pair[1].talos));
            }
        }
        for row in &matrix.rows {
            if row.host_min >= row.host_max {
                return Err(MatrixError::EmptyRange { talos: row.talos, what: "host" });
            }
            if row.kubernetes_min >= row.kubernetes_max {
                return Err(MatrixError::EmptyRange { talos: row.talos, what: "Kubernetes" });
            }
        }
        Ok(matrix)
    }

    /// Every row, oldest line first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row of one Talos line.
    pub fn row(&self, talos: Minor) -> Option<&Row> {
        self.rows.iter().find(|row| row.talos == talos)
    }

    /// The newest line the table knows.
    pub fn newest(&self) -> Option<Minor> {
        self.rows.last().map(|row| row.talos)
    }

    /// Whether `talos` runs `kubernetes`. Unknown lines run nothing (rule 10).
    pub fn supports(&self, talos: &Version, kubernetes: &Version) -> bool {
        self.row(talos.minor()).is_some_and(|row| row.runs(kubernetes))
    }

    /// Whether a node on `from` may be moved to `to`.
    pub fn accepts(&self, from: &Version, to: &Version) -> bool {
        self.row(to.minor())
            .is_some_and(|row| row.accepts_host(from) && row.passes_first(from).is_none())
    }

    /// The minor of the etcd that `talos` brings.
    pub fn etcd(&self, talos: &Version) -> Option<Minor> {
        self.row(talos.minor()).map(|row| row.etcd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    /// The published table, written a second time so that a slip in the data
    /// file does not go unseen. Rule 13.
    const PUBLISHED: &[(u64, &str, &str, u64, u64)] = &[
        (2, "1.0.0", "1.3.0", 23, 25),
        (3, "1.0.0", "1.5.0", 24, 26),
        (4, "1.0.0", "1.6.0", 25, 27),
        (5, "1.2.0", "1.7.0", 26, 28),
        (6, "1.3.0", "1.8.0", 24, 29),
        (7, "1.4.0", "1.9.0", 25, 30),
        (8, "1.5.0", "1.10.0", 26, 31),
        (9, "1.8.0", "1.11.0", 27, 32),
        (10, "1.8.0", "1.12.0", 28, 33),
        (11, "1.9.0", "1.13.0", 29, 34),
        (12, "1.10.0", "1.14.0", 30, 35),
        (13, "1.11.0", "1.15.0", 31, 36),
        (14, "1.12.0", "1.16.0", 32, 37),
        (15, "1.13.0", "1.17.0", 33, 38),
    ];

    #[test]
    fn builtin_has_every_published_row() {
        let matrix = Matrix::builtin();
        assert_eq!(matrix.rows().len(), PUBLISHED.len());
        for (row, (talos, host_min, host_max, oldest, newest)) in
            matrix.rows().iter().zip(PUBLISHED)
        {
            assert_eq!(row.talos, Minor::new(1, *talos));
            assert_eq!(row.host_min, version(host_min));
            assert_eq!(row.host_max, version(host_max));
            assert_eq!(row.kubernetes_minors(), (Minor::new(1, *oldest), Minor::new(1, *newest)));
            assert_eq!(row.kubernetes_max.patch(), 99);
            assert_eq!(row.released, *talos < 15);
        }
    }

    #[test]
    fn every_pair_of_minors_follows_the_table() {
        let matrix = Matrix::builtin();
        for (talos, _, _, oldest, newest) in PUBLISHED {
            for kubernetes in 20..45 {
                assert_eq!(
                    matrix.supports(&Version::new(1, *talos, 3), &Version::new(1, kubernetes, 1)),
                    (*oldest..=*newest).contains(&kubernetes),
                    "Talos 1.{talos}, Kubernetes 1.{kubernetes}"
                );
            }
        }
    }

    #[test]
    fn every_pair_of_hosts_follows_the_table() {
        let matrix = Matrix::builtin();
        for (target, host_min, host_max, ..) in PUBLISHED {
            for host in 0..20 {
                let host = Version::new(1, host, 4);
                let row = matrix.row(Minor::new(1, *target)).unwrap();
                assert_eq!(
                    row.accepts_host(&host),
                    host >= version(host_min) && host < version(host_max),
                    "{host} to 1.{target}"
                );
            }
        }
    }

    #[test]
    fn every_line_names_the_etcd_that_it_brings() {
        // Rule 13, written a second time.
        let matrix = Matrix::builtin();
        for (talos, ..) in PUBLISHED {
            let etcd = match talos {
                ..=10 => 5,
                11..=13 => 6,
                _ => 7,
            };
            let found = matrix.etcd(&Version::new(1, *talos, 3));
            assert_eq!(found, Some(Minor::new(3, etcd)), "Talos 1.{talos}");
        }
        assert_eq!(matrix.etcd(&version("1.99.0")), None);
    }

    #[test]
    fn etcd_3_6_is_reached_by_way_of_3_5_26() {
        // Rules 1 and 13: 1.10.9 brings it, and no installer checks it.
        let matrix = Matrix::builtin();
        let row = matrix.row(Minor::new(1, 11)).unwrap();
        assert!(row.accepts_host(&version("1.10.8")));
        assert_eq!(row.passes_first(&version("1.10.8")), Some(&version("1.10.9")));
        assert_eq!(row.passes_first(&version("1.9.6")), Some(&version("1.10.9")));
        assert_eq!(row.passes_first(&version("1.10.9")), None);
        assert_eq!(row.passes_first(&version("1.12.0")), None);
        assert!(!matrix.accepts(&version("1.10.8"), &version("1.11.6")));
        assert!(matrix.accepts(&version("1.10.9"), &version("1.11.6")));
    }

    #[test]
    fn prereleases_count_as_their_release() {
        let matrix = Matrix::builtin();
        assert!(matrix.supports(&version("1.13.0-rc.1"), &version("1.31.0-alpha.1")));
        assert!(matrix.accepts(&version("1.11.0-beta.1"), &version("1.13.0")));
        assert!(!matrix.supports(&version("1.12.0"), &version("1.36.0-alpha.1")));
    }

    #[test]
    fn an_upper_bound_is_excluded() {
        let mut row = Matrix::builtin().rows()[0].clone();
        row.kubernetes_max = version("1.25.0");
        assert!(!row.runs(&version("1.25.0")));
        assert_eq!(row.kubernetes_minors(), (Minor::new(1, 23), Minor::new(1, 24)));
    }

    #[test]
    fn unknown_lines_support_nothing() {
        let matrix = Matrix::builtin();
        assert!(!matrix.supports(&version("1.99.0"), &version("1.36.0")));
        assert!(!matrix.accepts(&version("1.98.0"), &version("1.99.0")));
    }

    #[test]
    fn a_bad_table_is_refused_with_its_place() {
        let row = |talos: &str, min: &str, max: &str| {
            format!(
                "[[row]]\ntalos = \"{talos}\"\netcd = \"3.6\"\nhost_min = \"{min}\"\nhost_max = \"{max}\"\n\
                 kubernetes_min = \"1.30.0\"\nkubernetes_max = \"1.31.99\"\n"
            )
        };
        let twice = row("1.13", "1.11.0", "1.15.0").repeat(2);
        assert_eq!(
            Matrix::from_toml(&twice).unwrap_err(),
            MatrixError::OutOfOrder(Minor::new(1, 13))
        );
        let empty = row("1.13", "1.15.0", "1.11.0");
        assert!(matches!(Matrix::from_toml(&empty), Err(MatrixError::EmptyRange { .. })));
        let error = Matrix::from_toml("[[row]]\ntalos = \"1.x\"\n").unwrap_err();
        assert!(error.to_string().contains("1.x"), "{error}");
        assert!(Matrix::from_toml("rows = 3").is_err());
    }
}
