/* The few questions Hearth asks hwloc, with plain structs as answers. Strings belong to the topology. */

#include <hwloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if HWLOC_API_VERSION < 0x00020800
#error "hwloc 2.8 or newer is needed (Debian package libhwloc-dev)"
#endif

/* A NUMA node. Latencies in ns, bandwidths in MiB/s, as seen by the best initiator; 0 where hwloc has no value. */
struct hearth_node {
    uint32_t os_index;
    uint32_t near_cpu_count;
    uint64_t usable; /* this process may allocate on it, or it is a GPU's */
    uint64_t capacity;
    uint64_t latency;
    uint64_t read_bandwidth;
    uint64_t write_bandwidth;
    const char *subtype;     /* DRAM, HBM, SPM, NVM, CXL-DRAM, MCDRAM, GPUMemory, ..., or NULL */
    const char *memory_tier; /* rank that hwloc >= 2.10 gives, 0 is the fastest; or NULL */
};

/* A logical CPU, how many CPUs of its core come before it, and whether this process may use it. */
struct hearth_cpu {
    uint32_t os_index;
    uint32_t sibling_rank;
    uint32_t usable;
};

/* Opens this machine (both NULL), an XML file, or a synthetic description. Returns NULL on failure.
 * Disallowed objects are asked for too, because hwloc counts the memory of GPUs among them; see is_usable. */
hwloc_topology_t hearth_topology_open(const char *xml, const char *synthetic)
{
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) < 0)
        return NULL;
    if ((xml && hwloc_topology_set_xml(t, xml) < 0) || (synthetic && hwloc_topology_set_synthetic(t, synthetic) < 0)
        || hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) < 0 || hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return NULL;
    }
    return t;
}

void hearth_topology_close(hwloc_topology_t t)
{
    hwloc_topology_destroy(t);
}

int hearth_topology_is_this_system(hwloc_topology_t t)
{
    return hwloc_topology_is_thissystem(t);
}

unsigned hearth_topology_cpu_count(hwloc_topology_t t)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    return n > 0 ? (unsigned)n : 0;
}

unsigned hearth_topology_node_count(hwloc_topology_t t)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);
    return n > 0 ? (unsigned)n : 0;
}

/* The value seen by the best initiator of the first attribute that has one, or 0. */
static uint64_t best_value(hwloc_topology_t t, hwloc_obj_t node, hwloc_memattr_id_t exact, hwloc_memattr_id_t either)
{
    struct hwloc_location initiator;
    hwloc_uint64_t value = 0;
    if (hwloc_memattr_get_best_initiator(t, exact, node, 0, &initiator, &value) == 0 && value)
        return value;
    if (hwloc_memattr_get_best_initiator(t, either, node, 0, &initiator, &value) == 0)
        return value;
    return 0;
}

/* The CPUs near a node: its locality, or that of its best initiator if the node has none of its own. */
static hwloc_const_cpuset_t near_cpus(hwloc_topology_t t, hwloc_obj_t node)
{
    static const hwloc_memattr_id_t attrs[] = {HWLOC_MEMATTR_ID_LATENCY, HWLOC_MEMATTR_ID_READ_LATENCY,
                                               HWLOC_MEMATTR_ID_BANDWIDTH, HWLOC_MEMATTR_ID_READ_BANDWIDTH};
    hwloc_const_cpuset_t all = hwloc_topology_get_topology_cpuset(t);
    if (node->cpuset && !hwloc_bitmap_iszero(node->cpuset) && !hwloc_bitmap_isequal(node->cpuset, all))
        return node->cpuset;
    for (unsigned i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        struct hwloc_location initiator;
        hwloc_uint64_t value;
        if (hwloc_memattr_get_best_initiator(t, attrs[i], node, 0, &initiator, &value) < 0)
            continue;
        if (initiator.type == HWLOC_LOCATION_TYPE_CPUSET && !hwloc_bitmap_iszero(initiator.location.cpuset))
            return initiator.location.cpuset;
    }
    return node->cpuset ? node->cpuset : all;
}

/* hwloc keeps GPU memory away from programs that do not know of it; Hearth does, and never takes it unasked. */
static int is_usable(hwloc_topology_t t, hwloc_obj_t node)
{
    if (node->subtype && !strcmp(node->subtype, "GPUMemory"))
        return 1;
    return hwloc_bitmap_isset(hwloc_topology_get_allowed_nodeset(t), node->os_index);
}

void hearth_topology_node(hwloc_topology_t t, unsigned index, struct hearth_node *out)
{
    hwloc_obj_t node = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, index);
    memset(out, 0, sizeof *out);
    out->os_index = node->os_index;
    out->usable = is_usable(t, node) != 0;
    out->capacity = node->attr->numanode.local_memory;
    out->subtype = node->subtype;
    out->memory_tier = hwloc_obj_get_info_by_name(node, "MemoryTier");
    out->latency = best_value(t, node, HWLOC_MEMATTR_ID_READ_LATENCY, HWLOC_MEMATTR_ID_LATENCY);
    out->read_bandwidth = best_value(t, node, HWLOC_MEMATTR_ID_READ_BANDWIDTH, HWLOC_MEMATTR_ID_BANDWIDTH);
    out->write_bandwidth = best_value(t, node, HWLOC_MEMATTR_ID_WRITE_BANDWIDTH, HWLOC_MEMATTR_ID_BANDWIDTH);
    int weight = hwloc_bitmap_weight(near_cpus(t, node));
    out->near_cpu_count = weight > 0 ? (unsigned)weight : 0;
}

/* Writes the OS numbers of the CPUs near node `index`; `out` has room for its near_cpu_count. */
void hearth_topology_near_cpus(hwloc_topology_t t, unsigned index, uint32_t *out)
{
    hwloc_obj_t node = hwloc_get_obj_by_type(t, HWLOC_OBJ_NUMANODE, index);
    hwloc_const_cpuset_t set = near_cpus(t, node);
    if (hwloc_bitmap_weight(set) <= 0)
        return;
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu))
        *out++ = (uint32_t)cpu;
}

void hearth_topology_cpu(hwloc_topology_t t, unsigned index, struct hearth_cpu *out)
{
    hwloc_obj_t pu = hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, index);
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
    out->os_index = pu->os_index;
    out->sibling_rank = 0;
    out->usable = hwloc_bitmap_isset(hwloc_topology_get_allowed_cpuset(t), pu->os_index) != 0;
    if (!core)
        return;
    for (int c = hwloc_bitmap_first(core->cpuset); c >= 0 && c != (int)pu->os_index;
         c = hwloc_bitmap_next(core->cpuset, c))
        out->sibling_rank++;
}

/* Model name of the first package, or NULL. */
const char *hearth_topology_cpu_model(hwloc_topology_t t)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0);
    return hwloc_obj_get_info_by_name(package ? package : hwloc_get_root_obj(t), "CPUModel");
}

unsigned hearth_topology_package_count(hwloc_topology_t t)
{
    int n = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
    return n > 0 ? (unsigned)n : 0;
}

/* Size of one last-level cache and of all of them together; 0 if hwloc knows no cache. */
void hearth_topology_llc(hwloc_topology_t t, uint64_t *one, uint64_t *total)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                              HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE};
    *one = *total = 0;
    for (unsigned i = 0; i < sizeof levels / sizeof *levels && !*total; i++) {
        int n = hwloc_get_nbobjs_by_type(t, levels[i]);
        for (int k = 0; k < n; k++) {
            uint64_t size = hwloc_get_obj_by_type(t, levels[i], (unsigned)k)->attr->cache.size;
            *total += size;
            if (size > *one)
                *one = size;
        }
    }
}
