//! Metrics and profiles of processes over HTTP, for Prometheus, Parca and Pyroscope. Nothing of it runs in them: every
//! answer is read from outside at the moment of the question.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod answers;
pub mod http;
pub mod metrics;
pub mod readings;
pub mod targets;

pub use answers::{Answer, Question, Service};
pub use targets::Targets;
