//! One conversation with two API servers, the embedded one and the real kube-apiserver, whose
//! answers differ only where the table says so.

mod access;
mod applies;
mod bad;
mod changes;
mod differences;
mod endings;
mod evictions;
mod lists;
mod normal;
mod objects;
mod shapes;
mod talk;
mod watches;

use envtest::{ControlPlane, Options as RealOptions, Tools};
use talos_sim::cluster::{Options, Shape};

use talk::{Endpoint, Spoken, Talk};

/// The whole conversation, chapter by chapter.
async fn converse(endpoint: Endpoint) -> Vec<Spoken> {
    let mut talk = Talk::new(endpoint);
    objects::chapter(&mut talk).await;
    changes::chapter(&mut talk).await;
    applies::chapter(&mut talk).await;
    lists::chapter(&mut talk).await;
    watches::chapter(&mut talk).await;
    shapes::chapter(&mut talk).await;
    endings::chapter(&mut talk).await;
    evictions::chapter(&mut talk).await;
    bad::chapter(&mut talk).await;
    access::chapter(&mut talk).await;
    talk.spoken
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_answers_like_the_real_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let tools = Tools::find().expect("the tools");
    let home = folder.path().join("plane");
    let started =
        tokio::task::spawn_blocking(|| ControlPlane::start(RealOptions::new(home, tools)));
    let plane = started.await.expect("no panic").expect("a control plane");
    let real = Endpoint::real(&plane);
    let cluster = testkit::cluster::start(Options {
        shape: Some(Shape { control_planes: 1, workers: 0, ..Shape::default() }),
        ..Options::default()
    })
    .await;
    let embedded = Endpoint::embedded(&cluster);
    let (real, embedded) = tokio::join!(converse(real), converse(embedded));
    tokio::task::spawn_blocking(|| plane.stop()).await.expect("no panic").expect("it stops");
    normal::compare(&real, &embedded, differences::DIFFERENCES);
}
