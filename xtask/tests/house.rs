//! The house rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The arrows of ARCHITECTURE.md: crate -> what it may import of ours.
const ARROWS: &[(&str, &[&str])] = &[
    ("reach-core", &[]),
    ("reach-journal", &["reach-core"]),
    ("reach-store", &["reach-core"]),
    ("reach-adapters", &["reach-core"]),
    ("reach-engine", &["reach-core", "reach-store"]),
    ("reach-server", &["reach-core", "reach-journal", "reach-engine"]),
    (
        "toolreach",
        &["reach-core", "reach-journal", "reach-store", "reach-adapters", "reach-engine", "reach-server", "reach-shop"],
    ),
];

/// Crates that must stay free of I/O: what they may never depend on, directly or not.
const PURE: &[&str] = &["reach-core", "reach-journal"];
const IMPURE: &[&str] = &["tokio", "hyper", "reqwest", "axum", "rusqlite", "cap-std", "mio"];

#[test]
fn no_arrow_between_crates_is_drawn_that_the_architecture_does_not_allow() {
    let metadata = MetadataCommand::new().current_dir(xtask::root()).no_deps().exec().unwrap();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let ours: BTreeSet<&str> = allowed.keys().copied().chain(["reach-shop"]).collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let Some(may) = allowed.get(package.name.as_str()) else { continue };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            // Tests may stand on anything of ours; what ships may not.
            if dependency.kind == DependencyKind::Normal && ours.contains(name) && !may.contains(&name) {
                wrong.push(format!("{} -> {name}", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that ARCHITECTURE.md does not allow: {wrong:?}");
}

#[test]
fn crates_without_io_depend_on_no_runtime_network_or_file_system() {
    let metadata = MetadataCommand::new().current_dir(xtask::root()).exec().unwrap();
    let resolve = metadata.resolve.as_ref().unwrap();
    let name_of = |id: &cargo_metadata::PackageId| {
        metadata.packages.iter().find(|package| &package.id == id).unwrap().name.to_string()
    };
    for pure in PURE {
        let start = metadata.packages.iter().find(|package| package.name.as_str() == *pure).unwrap();
        let mut seen = BTreeSet::new();
        let mut open = vec![start.id.clone()];
        while let Some(id) = open.pop() {
            if !seen.insert(id.clone()) {
                continue;
            }
            let node = resolve.nodes.iter().find(|node| node.id == id).unwrap();
            let normal =
                node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
            open.extend(normal.map(|dep| dep.pkg.clone()));
        }
        let found: Vec<String> = seen.iter().map(name_of).filter(|name| IMPURE.contains(&name.as_str())).collect();
        assert!(found.is_empty(), "{pure} reaches {found:?}");
    }
}

#[test]
fn every_module_opens_with_a_paragraph_for_the_reader() {
    let mut silent = Vec::new();
    for folder in ["crates", "examples", "suites", "xtask", "bench", "fuzz"] {
        for file in rust_files(&xtask::root().join(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            if !text.starts_with("//!") && !text.starts_with("#!") {
                silent.push(file);
            }
        }
    }
    assert!(silent.is_empty(), "no head comment in {silent:?}");
}

#[test]
fn every_crate_inherits_the_lints_of_the_workspace() {
    let metadata = MetadataCommand::new().current_dir(xtask::root()).no_deps().exec().unwrap();
    for package in &metadata.packages {
        let manifest = std::fs::read_to_string(&package.manifest_path).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{} does not inherit the lints", package.name);
    }
}

#[test]
fn every_error_code_has_its_page_and_no_page_is_left_over() {
    let folder = xtask::root().join("docs/errors");
    let mut wanted = BTreeSet::new();
    for row in reach_core::error::TABLE {
        let file = format!("{}.md", row.name);
        xtask::compare(&folder.join(&file), &reach_core::error::page(row)).unwrap();
        wanted.insert(file);
    }
    let mut index = String::from("# Error codes\n\n| code | HTTP | what happened |\n| --- | --- | --- |\n");
    for row in reach_core::error::TABLE {
        index.push_str(&format!("| [{0}]({0}.md) | {1} | {2} |\n", row.name, row.http_status, row.meaning));
    }
    xtask::compare(&folder.join("README.md"), &index).unwrap();
    wanted.insert("README.md".to_owned());
    let found: BTreeSet<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, wanted);
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = std::fs::read_to_string(xtask::root().join("ARCHITECTURE.md")).unwrap();
    for (name, _) in ARROWS {
        assert!(page.contains(name), "ARCHITECTURE.md does not mention {name}");
    }
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
