# One target a service, and `groundwork` for the command:
#
#     docker build --target watcher --tag groundwork/watcher:0.1.0 .
#
# `docker compose build` builds all of them. Dependencies are compiled once: they stay in the cache mount between builds.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
ENV CARGO_INCREMENTAL=0
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked --workspace \
        --bin groundwork --bin groundwork-wait --bin groundwork-bootstrap \
        --bin groundwork-watcher --bin groundwork-resolver --bin groundwork-renderer --bin groundwork-deployer \
        --bin groundwork-variant --bin groundwork-console \
    && mkdir /programs \
    && find target/release -maxdepth 1 -type f -name 'groundwork*' -executable -exec cp {} /programs/ ';'

# The C library, certificates of authorities and a user without a name; no shell.
FROM gcr.io/distroless/cc-debian12:nonroot AS runtime
COPY --from=build /programs/groundwork-wait /usr/local/bin/groundwork-wait
USER 65532:65532
# The C library gives large blocks back when they are freed, and keeps no pool of memory for each core: a service is small again after a burst.
ENV MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072

FROM runtime AS watcher
COPY --from=build /programs/groundwork-watcher /usr/local/bin/groundwork-watcher
ENTRYPOINT ["/usr/local/bin/groundwork-watcher"]

FROM runtime AS resolver
COPY --from=build /programs/groundwork-resolver /usr/local/bin/groundwork-resolver
ENTRYPOINT ["/usr/local/bin/groundwork-resolver"]

FROM runtime AS renderer
COPY --from=build /programs/groundwork-renderer /usr/local/bin/groundwork-renderer
ENTRYPOINT ["/usr/local/bin/groundwork-renderer"]

FROM runtime AS deployer
COPY --from=build /programs/groundwork-deployer /usr/local/bin/groundwork-deployer
ENTRYPOINT ["/usr/local/bin/groundwork-deployer"]

FROM runtime AS console
COPY --from=build /programs/groundwork-console /usr/local/bin/groundwork-console
ENTRYPOINT ["/usr/local/bin/groundwork-console"]

# The package store talks to remotes with `git`, which distroless images do not have.
FROM debian:bookworm-slim AS variant
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /programs/groundwork-wait /usr/local/bin/groundwork-wait
USER 65532:65532
COPY --from=build /programs/groundwork-variant /usr/local/bin/groundwork-variant
ENTRYPOINT ["/usr/local/bin/groundwork-variant"]

# The git server of compose.packages.yaml.
FROM debian:bookworm-slim AS git
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/*
COPY tools/git-server/serve /usr/local/bin/serve
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/serve"]

# What compose.yaml runs before the services.
FROM runtime AS bootstrap
COPY --from=build /programs/groundwork-bootstrap /usr/local/bin/groundwork-bootstrap
ENTRYPOINT ["/usr/local/bin/groundwork-bootstrap"]

# The command; without a target this is what is built.
FROM runtime AS groundwork
COPY --from=build /programs/groundwork /usr/local/bin/groundwork
ENTRYPOINT ["/usr/local/bin/groundwork"]
