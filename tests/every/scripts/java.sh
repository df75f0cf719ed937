#!/usr/bin/env bash
# The G1 collector under load, with null checks that the JVM takes as SIGSEGV, and direct buffers.
cat > Load.java <<'JAVA'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;

public class Load {
    static int length(String s) {
        return s.length();
    }
    static long work(int seed) {
        Random random = new Random(seed);
        Map<Integer, byte[]> live = new HashMap<>();
        long sum = 0, nulls = 0;
        for (int i = 0; i < 40000; i++) {
            byte[] old = live.put(random.nextInt(2000), new byte[random.nextInt(8000)]);
            sum += old == null ? 1 : old.length;
            if (i % 1000 == 0) {
                try {
                    sum += length(i % 2000 == 0 ? null : "four");
                } catch (NullPointerException e) {
                    nulls++;
                }
            }
        }
        ByteBuffer direct = ByteBuffer.allocateDirect(4 << 20);
        for (int i = 0; i < direct.capacity() - 8; i += 8) direct.putLong(i, i * 31L + seed);
        for (int i = 0; i < direct.capacity() - 8; i += 4096) sum += direct.getLong(i);
        return sum * 1000 + nulls;
    }
    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(2);
        List<Future<Long>> results = new ArrayList<>();
        for (int seed = 0; seed < 3; seed++) {
            int s = seed;
            results.add(pool.submit(() -> work(s)));
        }
        for (Future<Long> result : results) System.out.println(result.get());
        pool.shutdown();
        System.exit(9);
    }
}
JAVA
javac Load.java && java -XX:+UseG1GC -Xms64m -Xmx128m -cp . Load
