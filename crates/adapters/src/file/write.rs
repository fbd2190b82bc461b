//! `write` and `append`: the two operations that change something.
//!
//! A write is prepared beside its place (temporary file, synced) and becomes visible in one step; the
//! folder is synced then, so that an answer means that the file survives a crash. Neither goes through a
//! symbolic link in the last place: a link is an operator's, and is not replaced by an argument.

use std::io::{self, Write as _};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt, Permissions};
use encoding_rs::Encoding;
use reach_core::{Answer, Object};
use serde_json::json;
use uuid::Uuid;

use super::config::render;
use super::failure::{Error, Stage};
use super::path::{RelativePath, TEMPORARY};
use super::root::{Root, regular};
use super::work::Leave;
use crate::shared::template::Template;

/// What is written.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) template: Template,
    pub(super) max_bytes: u64,
    pub(super) encoding: &'static Encoding,
}

impl Content {
    /// The bytes of one call.
    pub(super) fn bytes(&self, arguments: &Object) -> Result<Vec<u8>, Error> {
        let text = render(&self.template, arguments)?;
        let (bytes, encoding, has_lost) = self.encoding.encode(&text);
        if has_lost {
            let why = format!("the content holds characters that {} cannot write", encoding.name());
            return Err(Error::Refused(why));
        }
        if bytes.len() as u64 > self.max_bytes {
            let why =
                format!("the content has {} bytes, more than the {} this tool writes", bytes.len(), self.max_bytes);
            return Err(Error::Refused(why));
        }
        Ok(bytes.into_owned())
    }
}

/// The settings of a `write`.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) content: Content,
    pub(super) create_directories: bool,
    pub(super) overwrite: bool,
}

/// The settings of an `append`.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) content: Content,
    pub(super) create_directories: bool,
}

impl Write {
    pub(super) fn run(&self, root: &Root, path: &RelativePath, content: &[u8], leave: &Leave) -> Result<Answer, Error> {
        let place = Place::open(root, path, self.create_directories, leave)?;
        if place.old.is_some() && !self.overwrite {
            return Err(Error::Exists(path.as_str().to_owned()));
        }
        let temporary = Temporary::write(&place, content)?;
        leave.commit()?;
        temporary.publish(self.overwrite)?;
        place.sync()?;
        let created = place.old.is_none();
        Ok(super::answer(json!({"path": path.as_str(), "bytes": content.len(), "created": created})))
    }
}

impl Append {
    pub(super) fn run(&self, root: &Root, path: &RelativePath, content: &[u8], leave: &Leave) -> Result<Answer, Error> {
        let place = Place::open(root, path, self.create_directories, leave)?;
        let mut options = OpenOptions::new();
        options.append(true).create(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
        leave.commit()?;
        let mut file =
            place.dir.open_with(place.name, &options).map_err(|error| place.failed(Stage::Preparing, error))?;
        regular(path, file.metadata().map_err(|error| place.failed(Stage::Preparing, error))?)?;
        // From the first byte on, a failure leaves a part behind.
        let mut rest = content;
        while !rest.is_empty() {
            let untouched = rest.len() == content.len();
            match file.write(rest) {
                Ok(0) => return Err(place.failed(Stage::Changing, io::ErrorKind::WriteZero.into())),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if untouched => return Err(place.failed(Stage::Preparing, error)),
                Err(error) => return Err(place.failed(Stage::Changing, error)),
            }
        }
        file.sync_all().map_err(|error| place.failed(Stage::Confirming, error))?;
        let size = file.metadata().map_err(|error| place.failed(Stage::Confirming, error))?.len();
        let created = place.old.is_none();
        if created {
            place.sync()?;
        }
        Ok(super::answer(json!({"path": path.as_str(), "bytes": content.len(), "size": size, "created": created})))
    }
}

/// Where a file is or will be: its open folder and its name in it.
struct Place<'a> {
    path: &'a RelativePath,
    dir: Dir,
    name: &'a str,
    /// The permissions of the regular file that is there now.
    old: Option<Permissions>,
}

impl<'a> Place<'a> {
    fn open(root: &Root, path: &'a RelativePath, create: bool, leave: &Leave) -> Result<Self, Error> {
        let Some((folder, name)) = path.split() else { return Err(Error::Folder(String::new())) };
        let dir = match root.folder(&folder, Stage::Preparing) {
            Err(Error::NotFound(_)) if create => make(root, &folder, leave)?,
            other => other?,
        };
        let old = match dir.symlink_metadata(name) {
            Ok(metadata) => Some(regular(path, metadata)?.permissions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(Error::system(path.as_str(), "written", Stage::Preparing, error)),
        };
        if old.as_ref().is_some_and(Permissions::readonly) {
            // A rename would ask the folder alone, and the administrator is asked nothing at all.
            let denied = io::Error::from_raw_os_error(libc::EACCES);
            return Err(Error::system(path.as_str(), "written", Stage::Preparing, denied));
        }
        Ok(Self { path, dir, name, old })
    }

    fn failed(&self, stage: Stage, error: io::Error) -> Error {
        Error::system(self.path.as_str(), "written", stage, error)
    }

    /// Makes the name durable.
    fn sync(&self) -> Result<(), Error> {
        sync(&self.dir).map_err(|error| Error::System {
            path: self.path.as_str().to_owned(),
            what: "written",
            stage: Stage::Confirming,
            source: error,
        })
    }
}

/// Makes the folders that are missing, each durable in its parent before the next.
fn make(root: &Root, folder: &RelativePath, leave: &Leave) -> Result<Dir, Error> {
    leave.commit()?;
    let mut made = RelativePath::root();
    for name in folder.as_str().split('/') {
        let parent = root.folder(&made, Stage::Preparing)?;
        made = made.join(name);
        match root.make_folder(&made) {
            Ok(()) => sync(&parent).map_err(|error| Error::system(made.as_str(), "made", Stage::Preparing, error))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::system(made.as_str(), "made", Stage::Preparing, error)),
        }
    }
    root.folder(folder, Stage::Preparing)
}

fn sync(dir: &Dir) -> io::Result<()> {
    dir.open(".")?.sync_all()
}

/// A whole new content under a name of its own; taken away again unless it was published.
struct Temporary<'a> {
    place: &'a Place<'a>,
    name: String,
    is_published: bool,
}

impl<'a> Temporary<'a> {
    fn write(place: &'a Place<'a>, content: &[u8]) -> Result<Self, Error> {
        let failed = |error| place.failed(Stage::Preparing, error);
        let name = format!("{TEMPORARY}{}", Uuid::now_v7().simple());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = place.dir.open_with(&name, &options).map_err(failed)?;
        let temporary = Self { place, name, is_published: false };
        file.write_all(content).map_err(failed)?;
        if let Some(permissions) = &place.old {
            file.set_permissions(permissions.clone()).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(temporary)
    }

    /// Puts it in its place in one step. Without `overwrite` the step itself fails where something is.
    fn publish(mut self, overwrite: bool) -> Result<(), Error> {
        let Place { dir, name, path, .. } = self.place;
        let step = if overwrite { dir.rename(&self.name, dir, name) } else { dir.hard_link(&self.name, dir, name) };
        self.is_published = overwrite && step.is_ok();
        step.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists(path.as_str().to_owned()),
            _ => self.place.failed(Stage::Preparing, error),
        })
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_published {
            // Nothing more can be done about a leftover; its name is never shown or taken.
            let _ = self.place.dir.remove_file(&self.name);
        }
    }
}
