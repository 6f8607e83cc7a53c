# Debian, not Alpine: Temporal's native core is built against glibc.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY src ./src
COPY local ./local
COPY workflows ./workflows
COPY activities ./activities
COPY examples ./examples
# dist/local is the launcher of npm start.
# A clone under umask 077 has files that only their owner may read.
RUN npm run build && rm -rf dist/local && npm prune --omit=dev --ignore-scripts && chmod -R a+rX .

FROM node:24.21.0-bookworm-slim
# For a Temporal server behind TLS; what Node itself calls brings its own roots.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/*
# IN_CONTAINER: the login `node` says nothing about who runs an operator's command (--as, OPERATOR_NAME).
ENV NODE_ENV=production IN_CONTAINER=true
WORKDIR /app
# Owned by root, run by node: the process cannot change its own code.
# The operator's commands know the project's folder by its lockfile.
COPY --from=build /app/package.json /app/package-lock.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY deploy/healthcheck.mjs ./deploy/
COPY docs/guides/runbook.md ./docs/guides/
USER node
EXPOSE 3000 9464
CMD ["node", "--max-semi-space-size=64", "--no-parallel-scavenge", "dist/src/main.js", "api"]
