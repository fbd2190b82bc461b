//! Connections of one tool: at most so many at once, and the idle ones kept for the next call.
//!
//! A [`Turn`] is the right to one connection. A connection comes back only by [`Turn::put_back`]; one that
//! was in the middle of something is dropped with its turn, and never seen again. What is kept belongs to
//! one login: a call with another starts anew.

use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::place::Login;

/// Idle connections and the count of all.
#[derive(Debug)]
pub(super) struct Pool<C> {
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<(Login, C)>>>,
}

/// The right to one connection.
#[derive(Debug)]
pub(super) struct Turn<C> {
    idle: Arc<Mutex<Vec<(Login, C)>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<C> Pool<C> {
    pub(super) fn new(size: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(size)), idle: Arc::default() }
    }

    /// Waits for a turn, in the order of asking.
    pub(super) async fn turn(&self) -> Turn<C> {
        // The semaphore is never closed; were it, a turn without a permit is still a turn.
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok();
        Turn { idle: Arc::clone(&self.idle), _permit: permit }
    }
}

impl<C> Turn<C> {
    /// An idle connection of this login. Idle ones of another login are closed.
    pub(super) fn take(&self, login: &Login) -> Option<C> {
        let mut strangers = Vec::new();
        let mut idle = self.idle.lock();
        let found = loop {
            match idle.pop() {
                Some((of, connection)) if same(&of, login) => break Some(connection),
                Some(stranger) => strangers.push(stranger),
                None => break None,
            }
        };
        drop(idle);
        found
    }

    /// Gives back a connection that is at rest.
    pub(super) fn put_back(self, login: &Login, connection: C) {
        self.idle.lock().push((login.clone(), connection));
    }
}

fn same(a: &Login, b: &Login) -> bool {
    let password = |login: &Login| login.password.as_ref().map(|password| password.expose_secret().to_owned());
    a.username == b.username && password(a) == password(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(name: &str) -> Login {
        Login { username: Some(name.to_owned()), password: Some("p".into()) }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_by_its_own_login_only() {
        let pool = Pool::new(1);
        let turn = pool.turn().await;
        assert_eq!(turn.take(&login("a")), None);
        turn.put_back(&login("a"), 1);
        let turn = pool.turn().await;
        assert_eq!(turn.take(&login("a")), Some(1));
        turn.put_back(&login("a"), 1);
        let turn = pool.turn().await;
        assert_eq!(turn.take(&login("b")), None);
        assert_eq!(turn.take(&login("a")), None, "the stranger's connection is closed");
    }

    #[tokio::test]
    async fn turns_are_counted_and_come_back_when_dropped() {
        let pool = Pool::<u8>::new(2);
        let (one, _two) = (pool.turn().await, pool.turn().await);
        assert_eq!(pool.turns.available_permits(), 0);
        drop(one);
        assert_eq!(pool.turns.available_permits(), 1);
    }
}
