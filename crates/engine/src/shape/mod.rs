//! Shaping results: from whatever the upstream answered to what a model can read.
