//! Which machines there are: as control planes know each other, and as Kubernetes knows
//! its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use talos_sim::model::{NodeIndex, NodeRole};
use upgrade_core::jiff::SignedDuration;
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_engine::io::machines::peer_limit;
use upgrade_engine::io::roster::{Member, Roster};
use upgrade_engine::io::{Clock, IoError, Machine};

use super::super::Inside;
use super::super::process_io::{ProcessIo, unavailable};
use crate::trace::Question;

impl ProcessIo {
    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster's name and the machines that anybody knows, or has known.
    pub(super) async fn discover(&self) -> Result<(String, Vec<Machine>), IoError> {
        let known: Vec<Machine> = {
            let known = self.roster().machines().into_iter();
            known.filter(|machine| machine.role == Role::ControlPlane).collect()
        };
        self.wait_for_silent(Question::Machines, &known, peer_limit()).await;
        self.ask(Question::Machines, |inside| {
            let Lists { lists, all_came } = inside.lists(&known)?;
            let mut roster = self.roster();
            roster.take(&lists, all_came);
            Ok((inside.world.spec().name.clone(), roster.machines()))
        })
        .await
    }

    /// The machines of Kubernetes' nodes; those that are not known yet are asked at their
    /// addresses.
    pub(super) async fn find(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> Vec<(NodeName, Result<Machine, IoError>)> {
        let unmatched: Vec<(NodeName, Vec<String>)> = {
            let mut roster = self.roster();
            roster.prefer(nodes);
            let unmatched = roster.unmatched(nodes).into_iter();
            unmatched.map(|(name, addresses)| (name.clone(), addresses.to_vec())).collect()
        };
        let mut all: Vec<_> =
            self.roster().machines().into_iter().map(|it| (it.name.clone(), Ok(it))).collect();
        let limit = Duration::try_from(peer_limit()).unwrap_or_default();
        for (name, addresses) in unmatched {
            let asked = self.ask(Question::Other("identify"), |inside| {
                let machine = inside.at(&addresses)?;
                inside.reach(&machine)?;
                Ok(machine)
            });
            let found = tokio::time::timeout(limit, asked).await;
            let found = found.unwrap_or_else(|_| Err(unavailable("no answer")));
            if let Ok(machine) = &found {
                self.roster().introduce(machine);
            }
            all.push((name, found));
        }
        all
    }

    /// If one of these hangs, waits as long as a caller waits for it. A caller that gives
    /// up earlier gets no answer.
    pub(super) async fn wait_for_silent(
        &self,
        question: Question,
        machines: &[Machine],
        limit: SignedDuration,
    ) {
        let silent = self.shared.at(|inside| {
            let mut found = machines.iter().filter_map(|machine| inside.find(&machine.name));
            found.any(|node| inside.world.is_silent(node))
        });
        if silent {
            let waiting = self.asks(question);
            Clock::sleep(self, limit).await;
            waiting.supersede();
        }
    }
}

/// What control planes know of the others.
struct Lists {
    lists: Vec<Vec<Member>>,
    all_came: bool,
}

impl Inside {
    /// The lists of all control planes that anybody knows, or has known.
    fn lists(&self, known: &[Machine]) -> Result<Lists, IoError> {
        let world = &self.world;
        let is_control_plane =
            |node: &NodeIndex| world.spec().nodes[node.0].role == NodeRole::ControlPlane;
        let mut endpoints = world.present().filter(is_control_plane);
        let endpoint = endpoints.find(|node| world.is_reachable(*node));
        let endpoint = endpoint.ok_or_else(|| unavailable("no control plane answers"))?;
        let own = world.members_of(endpoint).into_iter().filter(is_control_plane);
        let known = known.iter().filter_map(|machine| self.find(&machine.name));
        let peers: BTreeSet<NodeIndex> = own.chain(known).chain([endpoint]).collect();
        let answering = || peers.iter().filter(|node| world.is_reachable(**node));
        // Each list once: they are mostly the same.
        let shown: BTreeSet<NodeIndex> =
            answering().flat_map(|node| world.members_of(*node)).collect();
        Ok(Lists {
            lists: vec![shown.into_iter().map(|node| self.member_at(node)).collect()],
            all_came: answering().count() == peers.len(),
        })
    }

    fn member_at(&self, node: NodeIndex) -> Member {
        let spec = &self.world.spec().nodes[node.0];
        Member {
            name: NodeName(spec.hostname.clone()),
            role: Some(match spec.role {
                NodeRole::ControlPlane => Role::ControlPlane,
                NodeRole::Worker => Role::Worker,
            }),
            addresses: spec.addresses.iter().map(ToString::to_string).collect(),
        }
    }

    /// The machine at one of these addresses.
    fn at(&self, addresses: &[String]) -> Result<Machine, IoError> {
        let mut found = addresses.iter().filter_map(|it| Some((it, self.world.find(it)?)));
        let (address, node) = found.next().ok_or_else(|| unavailable("no route to host"))?;
        let Member { name, role, .. } = self.member_at(node);
        let role = role.unwrap_or(Role::Worker);
        Ok(Machine { name, address: address.clone(), role })
    }
}
