/* Recommended traits, most important allocation first: H2M (Klinkenberg et al., FGCS 2023), Listing 3 and section 4.3.
 * Paste each above the allocation that it names. */

/* make_field (solver.c:10): 100.0 % of the latency of main memory */
alloc_trait_t traits_1a2b3c4d[5] = {
    atk_pref_mem_space, atv_mem_space_hbw,
    atk_access_mode, atv_access_mode_readonly,
    atk_access_freq, 65536000, /* misses a second */
    atk_access_pattern, atv_access_pattern_strided,
    atk_access_stride, 8 /* bytes */
};
