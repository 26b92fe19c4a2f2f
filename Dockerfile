# The static binary on an empty image. Alpine's Rust builds for musl by itself,
# and musl binaries link everything in.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev ca-certificates
WORKDIR /source
COPY . .
RUN cargo build --profile dist --locked --package talos-operator \
    && cp target/dist/talos-operator /talos-operator

FROM scratch
# The authorities that sign the Image Factory's certificate.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /talos-operator /talos-operator
USER 65532:65532
ENTRYPOINT ["/talos-operator"]
