//! The promise of a store of blobs, as scenarios that every body runs; then what is the directory's own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reach_store::Blobs;
use reach_store::blobs::{Blob, DirectoryBlobs};

/// One storage.
trait Stage {
    /// One more process on it.
    fn open(&self) -> impl Blobs;
}

struct DirectoryStage(tempfile::TempDir);

impl DirectoryStage {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("blobs")
    }

    fn capped(&self, bytes: u64) -> DirectoryBlobs {
        DirectoryBlobs::open(&self.root(), bytes).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found
    }
}

impl Stage for DirectoryStage {
    fn open(&self) -> impl Blobs {
        self.capped(1 << 20)
    }
}

async fn what_was_put_is_got_by_any_process(stage: &impl Stage) {
    let blobs = stage.open();
    for (media_type, bytes) in [
        ("application/json", b"{\"a\":[1,2,3]}".to_vec()),
        ("text/plain; charset=utf-8", "一行\n又一行\n".as_bytes().to_vec()),
        ("image/png", (0..=255).cycle().take(100_000).collect()),
        ("text/\n\"odd\"", Vec::new()),
    ] {
        let id = blobs.put("bot", media_type, bytes.clone()).await.unwrap();
        let wanted = Some(Blob { media_type: media_type.to_owned(), bytes });
        assert_eq!(blobs.get("bot", &id).await.unwrap(), wanted);
        assert_eq!(stage.open().get("bot", &id).await.unwrap(), wanted);
    }
}

async fn an_id_is_made_of_owner_and_content(stage: &impl Stage) {
    let blobs = stage.open();
    let id = blobs.put("bot", "text/plain", b"same".to_vec()).await.unwrap();
    assert_eq!(id.len(), 42);
    assert!(id.starts_with("b_") && id[2..].bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(blobs.put("bot", "text/plain", b"same".to_vec()).await.unwrap(), id);
    assert_ne!(blobs.put("bot", "text/plain", b"other".to_vec()).await.unwrap(), id);
    assert_ne!(blobs.put("other", "text/plain", b"same".to_vec()).await.unwrap(), id);
    let (one, two) =
        (blobs.put("ab", "t", b"c".to_vec()).await.unwrap(), blobs.put("a", "t", b"bc".to_vec()).await.unwrap());
    assert_ne!(one, two, "where the owner ends and the content begins is part of it");
}

async fn another_owner_gets_nothing_even_with_the_id(stage: &impl Stage) {
    let blobs = stage.open();
    let id = blobs.put("bot", "text/plain", b"for bot only".to_vec()).await.unwrap();
    for owner in ["other", "", "bo", "bott", "BOT"] {
        assert_eq!(blobs.get(owner, &id).await.unwrap(), None, "{owner:?}");
    }
}

async fn an_id_that_was_never_given_out_finds_nothing(stage: &impl Stage) {
    let blobs = stage.open();
    let id = blobs.put("bot", "text/plain", b"x".to_vec()).await.unwrap();
    let hex = &id[2..];
    for odd in [
        String::new(),
        "b_".to_owned(),
        hex.to_owned(),
        format!("B_{hex}"),
        format!("b_{}", hex.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A")),
        format!("b_{}", "0".repeat(40)),
        format!("{id}0"),
        format!("{id}/"),
        format!("b_{}/../{}", &hex[..2], &hex[2..36]),
        "b_../../../../../../../../etc/passwd".to_owned(),
        "b_/etc/passwd".to_owned(),
        format!("b_{}\0{}", &hex[..20], &hex[21..]),
        format!("b_..{}", &hex[2..]),
        format!("b_{}", "é".repeat(20)),
    ] {
        assert_eq!(blobs.get("bot", &odd).await.unwrap(), None, "{odd:?}");
    }
}

mod in_a_directory {
    use super::DirectoryStage;

    crate::run_on!(DirectoryStage::new() =>
        what_was_put_is_got_by_any_process,
        an_id_is_made_of_owner_and_content,
        another_owner_gets_nothing_even_with_the_id,
        an_id_that_was_never_given_out_finds_nothing,
    );
}

fn age(path: &Path, by: Duration) {
    std::fs::File::options().append(true).open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
}

fn path_of(stage: &DirectoryStage, id: &str) -> PathBuf {
    stage.root().join(&id[2..4]).join(&id[4..])
}

#[tokio::test]
async fn files_are_the_users_alone_and_nothing_is_left_beside_them() {
    let stage = DirectoryStage::new();
    let id = stage.open().put("bot", "text/plain", b"x".to_vec()).await.unwrap();
    let path = path_of(&stage, &id);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&path), mode(path.parent().unwrap()), mode(&stage.root())], [0o600, 0o700, 0o700]);
    assert_eq!(stage.files(), [path]);
}

#[tokio::test]
async fn beyond_the_cap_the_oldest_go_first_and_the_newest_stays() {
    let stage = DirectoryStage::new();
    let blobs = stage.capped(10_000);
    let mut ids = Vec::new();
    for index in 0..9u8 {
        let id = blobs.put("bot", "t", vec![index; 1_000]).await.unwrap();
        age(&path_of(&stage, &id), Duration::from_secs(1_000 - u64::from(index)));
        ids.push(id);
    }
    // Seen again, the oldest of all is the youngest now.
    blobs.put("bot", "t", vec![0; 1_000]).await.unwrap();
    let newest = blobs.put("bot", "t", vec![99; 2_500]).await.unwrap();
    let mut kept = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        if blobs.get("bot", id).await.unwrap().is_some() {
            kept.push(index);
        }
    }
    assert_eq!(kept, [0, 4, 5, 6, 7, 8], "nine tenths are left");
    assert!(blobs.get("bot", &newest).await.unwrap().is_some());
    let total: u64 = stage.files().iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    assert!(total <= 9_000, "{total}");
}

#[tokio::test]
async fn the_cap_counts_what_earlier_processes_left() {
    let stage = DirectoryStage::new();
    for index in 0..20u8 {
        stage.capped(1 << 20).put("bot", "t", vec![index; 1_000]).await.unwrap();
    }
    stage.capped(5_000).put("bot", "t", vec![99; 1_000]).await.unwrap();
    let total: u64 = stage.files().iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    assert!(total <= 5_000, "{total}");
}

#[tokio::test]
async fn a_result_larger_than_the_cap_is_refused_and_evicts_nothing() {
    let stage = DirectoryStage::new();
    let blobs = stage.capped(2_000);
    let id = blobs.put("bot", "t", vec![1; 1_000]).await.unwrap();
    let said = blobs.put("bot", "t", vec![2; 3_000]).await.unwrap_err().to_string();
    assert!(said.contains("3000") || said.contains("larger"), "{said}");
    assert!(blobs.get("bot", &id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_blob_is_not_shown_and_heals_when_put_again() {
    let stage = DirectoryStage::new();
    let blobs = stage.open();
    let bytes = b"a result that matters".to_vec();
    let id = blobs.put("bot", "text/plain", bytes.clone()).await.unwrap();
    let whole = std::fs::read(path_of(&stage, &id)).unwrap();
    for damaged in [whole[..whole.len() - 3].to_vec(), Vec::new(), [b"{}", &whole[..]].concat()] {
        std::fs::write(path_of(&stage, &id), damaged).unwrap();
        assert_eq!(blobs.get("bot", &id).await.unwrap().filter(|blob| blob.bytes != bytes), None);
        blobs.put("bot", "text/plain", bytes.clone()).await.unwrap();
        assert_eq!(blobs.get("bot", &id).await.unwrap().map(|blob| blob.bytes), Some(bytes.clone()));
    }
}

#[tokio::test]
async fn a_file_left_half_written_by_a_crash_is_swept_once_it_is_old() {
    let stage = DirectoryStage::new();
    drop(stage.open());
    let (old, young) = (stage.root().join(".beside-old"), stage.root().join(".beside-young"));
    for path in [&old, &young] {
        std::fs::write(path, "half").unwrap();
    }
    age(&old, Duration::from_secs(7_200));
    drop(stage.open());
    assert_eq!(stage.files(), [young], "a young one may still be written by another process");
}

#[tokio::test]
async fn many_writers_of_the_same_and_of_other_bytes_get_all_of_them() {
    let stage = DirectoryStage::new();
    let blobs = std::sync::Arc::new(stage.capped(1 << 20));
    let mut writers = tokio::task::JoinSet::new();
    for index in 0..64u8 {
        let blobs = std::sync::Arc::clone(&blobs);
        writers.spawn(async move {
            let bytes = vec![index % 8; 5_000];
            let id = blobs.put("bot", "t", bytes.clone()).await.unwrap();
            assert_eq!(blobs.get("bot", &id).await.unwrap().map(|blob| blob.bytes), Some(bytes));
        });
    }
    writers.join_all().await;
    assert_eq!(stage.files().len(), 8);
}

#[test]
fn a_place_that_is_no_directory_is_an_error_at_opening() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("blobs"), "a file").unwrap();
    assert!(DirectoryBlobs::open(&folder.path().join("blobs"), 1).is_err());
}
