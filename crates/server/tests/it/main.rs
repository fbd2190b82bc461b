//! The server as its callers meet it: a real engine, real stores, real sockets.

#[cfg(test)]
mod access;
#[cfg(test)]
mod api;
#[cfg(test)]
mod house;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod mcp_http;
#[cfg(test)]
mod mcp_stdio;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod stopping;
