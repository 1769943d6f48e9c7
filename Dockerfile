# The image of Kausality: one static program, not root. `make image` makes the
# same image without Docker. Without arguments the program is the composition
# function, since Crossplane passes functions none.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=dev
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.buildVersion=${VERSION}" -o /kausality ./cmd/kausality

FROM gcr.io/distroless/static-debian12:nonroot
LABEL org.opencontainers.image.title="function-kausality" \
      org.opencontainers.image.source="https://github.com/kausality-io/function-kausality" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /kausality /kausality
USER 65532:65532
ENTRYPOINT ["/kausality"]
