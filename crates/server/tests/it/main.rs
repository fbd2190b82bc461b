//! The server as its callers meet it: a real engine, real stores, real sockets.

mod access;
mod api;
mod house;
mod journal;
mod limits;
mod mcp_http;
mod mcp_stdio;
mod openapi;
mod operate;
mod stopping;
