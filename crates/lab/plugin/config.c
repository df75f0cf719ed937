/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Reads the configuration. */
#include "config.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config config;

static char error[256];

static const char *fail(const char *what, const char *where) {
  snprintf(error, sizeof error, "%s: %s", where, what);
  return error;
}

static bool set_number(uint64_t *into, const char *text) {
  char *end;
  *into = strtoull(text, &end, 10);
  return end != text && *end == 0;
}

static bool set_figure(double *into, const char *text) {
  char *end;
  *into = strtod(text, &end);
  return end != text && *end == 0 && *into >= 0;
}

static bool set(const char *key, const char *value) {
  struct {
    const char *key;
    uint64_t *into;
  } numbers[] = {
      {"vcpus", &config.vcpus},     {"tiers", &config.tiers},     {"fast_node", &config.fast_node},
      {"l1_kib", &config.l1_kib},   {"l1_ways", &config.l1_ways}, {"l2_kib", &config.l2_kib},
      {"l2_ways", &config.l2_ways}, {"llc_kib", &config.llc_kib}, {"llc_ways", &config.llc_ways},
      {"memory_mode_bytes", &config.memory_mode_bytes},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (!strcmp(key, numbers[i].key)) return set_number(numbers[i].into, value);
  if (strncmp(key, "tier", 4) || key[4] < '0' || key[4] >= '0' + WINDOW_TIERS || key[5] != '.') return false;
  struct tier_config *tier = &config.tier[key[4] - '0'];
  if (!strcmp(key + 6, "bytes")) return set_number(&tier->bytes, value);
  struct {
    const char *key;
    double *into;
  } figures[] = {
      {"latency_ns", &tier->latency_ns}, {"loaded_ns", &tier->loaded_ns},   {"loaded_gbps", &tier->loaded_gbps},
      {"read_gbps", &tier->read_gbps},   {"write_gbps", &tier->write_gbps}, {"mixed_gbps", &tier->mixed_gbps},
  };
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    if (!strcmp(key + 6, figures[i].key)) return set_figure(figures[i].into, value);
  return false;
}

static bool power_of_two(uint64_t n) { return n && !(n & (n - 1)); }

static bool cache_ok(uint64_t kib, uint64_t ways) {
  return ways >= 1 && ways <= 16 && kib && kib * 16 % ways == 0 && power_of_two(kib * 16 / ways);
}

const char *config_read(const char *path) {
  FILE *file = fopen(path, "re");
  if (!file) return fail("cannot be read", path);
  char line[256];
  const char *wrong = NULL;
  while (!wrong && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *equals = strchr(line, '=');
    if (equals) *equals = 0;
    if (!equals || !set(line, equals + 1)) wrong = fail("is not understood", line);
  }
  fclose(file);
  if (wrong) return wrong;
  if (!config.vcpus || config.vcpus > WINDOW_VCPUS) return fail("must be 1 to 8", "vcpus");
  if (!config.tiers || config.tiers > WINDOW_TIERS || config.fast_node >= config.tiers)
    return fail("must be 1 to 4, and fast_node one of them", "tiers");
  for (uint64_t i = 0; i < config.tiers; i++) {
    const struct tier_config *t = &config.tier[i];
    if (!t->bytes || t->latency_ns <= 0 || t->read_gbps <= 0 || t->write_gbps <= 0)
      return fail("need bytes, latency and bandwidths", "tiers");
  }
  if (!cache_ok(config.l1_kib, config.l1_ways) || !cache_ok(config.l2_kib, config.l2_ways) ||
      !cache_ok(config.llc_kib, config.llc_ways))
    return fail("need at most 16 ways and a power of two of sets", "caches");
  /* Its layout is part of the code, since every access goes through it. */
  if (config.l1_kib != 32 || config.l1_ways != 8) return fail("must have 32 KiB and 8 ways", "the L1 cache");
  return NULL;
}
