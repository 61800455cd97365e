# gpucost in a container: no root, no compiler, nothing fetched when it runs.
#   docker build -t gpucost .
#   docker run --rm -v gpucost-data:/data -v ./gpucost.toml:/etc/gpucost/gpucost.toml:ro gpucost report
# It needs nothing but /data to write to: --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges
# Other bases fit, too, where python is 3.11 or newer: --build-arg PYTHON_IMAGE=…
# The digest of python:3.12-slim-bookworm, for all platforms; docker buildx imagetools inspect python:3.12-slim-bookworm says a newer one.
ARG PYTHON_IMAGE=python:3.12-slim-bookworm@sha256:782412e85d0f0984994c290652577d4018aff08145c85b262bb63dc0c7522254

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/gpucost
WORKDIR /src
# dependencies first: they change less often than the code
COPY requirements requirements
# with the libraries of all clouds; --build-arg REQUIREMENTS=run leaves them out
ARG REQUIREMENTS=all
RUN /opt/gpucost/bin/pip install --require-hashes -r requirements/${REQUIREMENTS}.txt
COPY pyproject.toml README.md LICENSE ./
COPY gpucost gpucost
COPY pricing pricing
COPY reports reports
# requirements bring the build backend, so that nothing else is fetched
RUN /opt/gpucost/bin/pip install --no-deps --no-build-isolation . \
    && /opt/gpucost/bin/pip uninstall --yes pip \
    && /opt/gpucost/bin/python -m compileall -q /opt/gpucost/lib

FROM ${PYTHON_IMAGE}
RUN groupadd --gid 10001 gpucost \
    && useradd --uid 10001 --gid gpucost --no-create-home --home-dir /data --shell /usr/sbin/nologin gpucost \
    && mkdir /data /etc/gpucost \
    && chown gpucost:gpucost /data
COPY --from=build /opt/gpucost /opt/gpucost
# XDG_CONFIG_HOME: a config mounted at /etc/gpucost/gpucost.toml is found
ENV PATH=/opt/gpucost/bin:$PATH \
    XDG_CONFIG_HOME=/etc \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GPUCOST_STORE=/data/gpucost.duckdb
USER 10001:10001
WORKDIR /data
VOLUME /data
ENTRYPOINT ["gpucost"]
CMD ["--help"]
