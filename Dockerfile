# docker build --build-arg COMMIT="$(git rev-parse HEAD)" --build-arg DATE="$(git log -1 --format=%cI)" -t gpuwhy .
#
# Both stages are Debian with glibc: the NVIDIA runtime mounts the host's
# libnvidia-ml.so.1 into the container, and musl can't load it.

# Name the images by their digest, so that nobody can change what you build on:
# make image BASE=debian@sha256:… BUILDER=golang@sha256:…
ARG BUILDER=golang:1.26-bookworm
ARG BASE=debian:bookworm-slim

FROM ${BUILDER} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG COMMIT=
ARG DATE=
RUN CGO_CFLAGS="-O2 -g -Wno-deprecated-declarations" \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/gpuwhy/gpuwhy/internal/release.commit=${COMMIT} -X github.com/gpuwhy/gpuwhy/internal/release.date=${DATE}" -o /out/gpuwhy ./cmd/gpuwhy

FROM ${BASE}
LABEL org.opencontainers.image.title="gpuwhy" \
      org.opencontainers.image.description="Why is my GPU fan running? A live dashboard that names the process behind the heat." \
      org.opencontainers.image.source="https://github.com/gpuwhy/gpuwhy" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10003 gpuwhy \
 && useradd --system --uid 10003 --gid gpuwhy --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin gpuwhy \
 && install -d -o gpuwhy -g gpuwhy -m 0700 /var/lib/gpuwhy
COPY LICENSE /usr/share/doc/gpuwhy/LICENSE
COPY --from=build /out/gpuwhy /usr/local/bin/gpuwhy

# Makes NVIDIA's runtime mount every GPU, and only the part of the driver that reads GPUs.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility
# A container's loopback can't be reached from outside. So gpuwhy listens on all addresses of
# the container, and starts once you say who may come in. Either publish the port on the host's
# loopback, for everybody there: -p 127.0.0.1:8003:8003 -e GPUWHY_NO_SIGN_IN=operator
# Or have people sign in: -e GPUWHY_SIGN_IN=true -e GPUWHY_TLS_SELF_SIGNED=true (docs/access.md).
ENV GPUWHY_LISTEN=0.0.0.0:8003

# A number, so that Kubernetes can verify that the user is not root.
USER 10003:10003
EXPOSE 8003
HEALTHCHECK --interval=30s --timeout=6s --start-period=15s --retries=3 CMD ["/usr/local/bin/gpuwhy", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/gpuwhy"]
