// The program of java.sh: compiled in memory by the launcher, then threads, collections, deflate and direct buffers.
// SPDX-License-Identifier: BSD-2-Clause
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class JavaProgram {
    static long work(int seed) throws Exception {
        Map<String, List<Integer>> map = new TreeMap<>();
        for (int i = 0; i < 200_000; i++)
            map.computeIfAbsent("key" + (i * 7919L + seed) % 20011, key -> new ArrayList<>()).add(i);
        long sum = map.values().stream().mapToLong(list -> list.stream().mapToLong(Integer::longValue).sum() % 1009).sum();
        byte[] data = map.toString().getBytes("UTF-8"), packed = new byte[data.length], unpacked = new byte[data.length];
        for (int round = 0; round < 3; round++) {
            Deflater deflater = new Deflater(1 + round);
            deflater.setInput(data);
            deflater.finish();
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            if (inflater.inflate(unpacked) != data.length || !Arrays.equals(data, unpacked)) throw new AssertionError();
            inflater.end();
            sum += length;
        }
        for (int i = 0; i < 300; i++)
            sum += ByteBuffer.allocateDirect(1000 + i * 100).putInt(0, i).getInt(0);
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        long[] results = new long[6];
        for (int i = 0; i < results.length; i++) {
            int index = i;
            threads.add(new Thread(() -> { try { results[index] = work(index); } catch (Exception e) { throw new RuntimeException(e); } }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        System.out.println(Arrays.stream(results).mapToObj(Long::toString).collect(Collectors.joining(" ")));
    }
}
