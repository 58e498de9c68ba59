//! Component stores: CTF directories and the repository map.
