/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The part of QEMU's TCG plugin interface (API version 4, QEMU 9.2 to 10.0) and of glib that this plugin uses, declared
 * anew because no distribution packages QEMU's header.
 */
#ifndef HEARTH_QEMU_H
#define HEARTH_QEMU_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLUGIN_API_VERSION 4
#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

typedef struct {
  const char *target_name;
  struct {
    int min;
    int cur;
  } version;
  bool system_emulation;
  union {
    struct {
      int smp_vcpus;
      int max_vcpus;
    } system;
  };
} qemu_info_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
struct qemu_plugin_hwaddr;
struct qemu_plugin_register;

typedef struct {
  struct qemu_plugin_scoreboard *score;
  size_t offset;
} qemu_plugin_u64;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_CB_RW_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64, QEMU_PLUGIN_INLINE_STORE_U64 };
enum qemu_plugin_mem_value_type {
  QEMU_PLUGIN_MEM_VALUE_U8,
  QEMU_PLUGIN_MEM_VALUE_U16,
  QEMU_PLUGIN_MEM_VALUE_U32,
  QEMU_PLUGIN_MEM_VALUE_U64,
  QEMU_PLUGIN_MEM_VALUE_U128,
};
enum qemu_plugin_cond {
  QEMU_PLUGIN_COND_NEVER,
  QEMU_PLUGIN_COND_ALWAYS,
  QEMU_PLUGIN_COND_EQ,
  QEMU_PLUGIN_COND_NE,
  QEMU_PLUGIN_COND_LT,
  QEMU_PLUGIN_COND_LE,
  QEMU_PLUGIN_COND_GT,
  QEMU_PLUGIN_COND_GE,
};

typedef struct {
  enum qemu_plugin_mem_value_type type;
  union {
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    struct {
      uint64_t low;
      uint64_t high;
    } u128;
  } data;
} qemu_plugin_mem_value;

typedef struct {
  struct qemu_plugin_register *handle;
  const char *name;
  const char *feature;
} qemu_plugin_reg_descriptor;

typedef struct {
  char *data;
  unsigned len;
} GArray;
typedef struct {
  uint8_t *data;
  unsigned len;
} GByteArray;

typedef void (*qemu_plugin_simple_cb_t)(qemu_plugin_id_t);
typedef void (*qemu_plugin_udata_cb_t)(qemu_plugin_id_t, void *);
typedef void (*qemu_plugin_vcpu_simple_cb_t)(qemu_plugin_id_t, unsigned);
typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned, void *);
typedef void (*qemu_plugin_vcpu_tb_trans_cb_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *);

void qemu_plugin_reset(qemu_plugin_id_t, qemu_plugin_simple_cb_t);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, qemu_plugin_vcpu_simple_cb_t);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t, qemu_plugin_vcpu_simple_cb_t);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t, qemu_plugin_vcpu_simple_cb_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, qemu_plugin_vcpu_tb_trans_cb_t);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, qemu_plugin_udata_cb_t, void *);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, enum qemu_plugin_op, qemu_plugin_u64,
                                                       uint64_t);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *, qemu_plugin_vcpu_udata_cb_t,
                                               enum qemu_plugin_cb_flags, enum qemu_plugin_cond, qemu_plugin_u64,
                                               uint64_t, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, qemu_plugin_vcpu_udata_cb_t,
                                            enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, qemu_plugin_vcpu_mem_cb_t, enum qemu_plugin_cb_flags,
                                      enum qemu_plugin_mem_rw, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
GArray *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *, GByteArray *);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *, unsigned);

GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned);
void g_array_unref(GArray *);
#endif
