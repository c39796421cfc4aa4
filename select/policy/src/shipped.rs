//! Profiles and policies that come with Hawser.
