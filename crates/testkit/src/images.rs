//! Environment of our images, for tests that start the programs without them.

const DOCKERFILE: &str = include_str!("../../../Dockerfile");

/// Returns the variables, with their values, that every image sets.
pub fn image_environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    // Lines before this belong to the build stage.
    let (_, shipped) = DOCKERFILE.split_once(" AS runtime\n").unwrap_or_default();
    let settings = shipped.lines().filter_map(|line| line.strip_prefix("ENV "));
    settings.flat_map(str::split_whitespace).filter_map(|setting| setting.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_set_what_the_allocator_keeps() {
        let names: Vec<&str> = image_environment().map(|(name, _)| name).collect();
        assert_eq!(names, ["MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"]);
    }
}
