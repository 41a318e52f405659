//! The scenes of a run: one server with everything on it, and others with one purpose each.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::figures::Figures;
use super::{Plan, branches, nodes, one_server, promotions};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Three databases with sequences of all kinds.
    Mixed,
    /// Many more sequences than slots.
    Crowd,
    /// Two dozen databases, and fewer worker processes than databases.
    Databases,
    /// A disk that is sometimes full.
    Disk,
    /// Several servers that serve the same sequences.
    Nodes,
    /// A standby that lags behind is promoted, again and again.
    Promotions,
    /// A centre and its branches, and counters of others.
    Branches,
}

const OTHERS: [Scene; 6] =
    [Scene::Crowd, Scene::Databases, Scene::Disk, Scene::Nodes, Scene::Promotions, Scene::Branches];

impl Scene {
    pub const ALL: [Scene; 7] = [
        Scene::Mixed,
        Scene::Crowd,
        Scene::Databases,
        Scene::Disk,
        Scene::Nodes,
        Scene::Promotions,
        Scene::Branches,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scene::Mixed => "mixed",
            Scene::Crowd => "crowd",
            Scene::Databases => "databases",
            Scene::Disk => "disk",
            Scene::Nodes => "nodes",
            Scene::Promotions => "promotions",
            Scene::Branches => "branches",
        }
    }

    pub fn by_name(name: &str) -> Option<Scene> {
        Scene::ALL.into_iter().find(|scene| scene.name() == name)
    }

    pub(super) fn play(self, plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
        match self {
            Scene::Nodes => nodes::play(plan, time, seed, figures),
            Scene::Promotions => promotions::play(plan, time, seed, figures),
            Scene::Branches => branches::play(plan, time, seed, figures),
            _ => one_server::play(self, plan, time, seed, figures),
        }
    }
}

/// The mixed scene for half of the time, then the others, again and again, in an order that the seed determines.
pub fn programme(plan: &Plan) -> Vec<(Scene, Duration)> {
    if let Some(scene) = plan.scene {
        return vec![(scene, plan.time)];
    }
    let mut rest = plan.time / 2;
    let mut programme = vec![(Scene::Mixed, plan.time - rest)];
    let piece =
        (rest / OTHERS.len() as u32).clamp(Duration::from_secs(12), Duration::from_secs(90));
    let mut rng = Rng::with_seed(plan.seed);
    let mut order = Vec::new();
    while rest >= piece {
        rest -= piece;
        if order.is_empty() {
            order = OTHERS.to_vec();
            rng.shuffle(&mut order);
        }
        programme.extend(order.pop().map(|scene| (scene, piece)));
    }
    programme
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_them_all() {
        let time = Duration::from_secs(1_800);
        let plan = Plan {
            time,
            sessions: 1,
            seed: 3,
            batch: 1,
            pause: 1,
            refuse_memory: true,
            scene: None,
        };
        let programme = programme(&plan);
        assert!(Scene::ALL.iter().all(|scene| programme.iter().any(|(found, _)| found == scene)));
        assert_eq!(programme.iter().map(|(_, time)| *time).sum::<Duration>(), time);
    }
}
