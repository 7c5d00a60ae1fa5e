import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.channels.Channel;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/**
 * Sends parts of a file over a socket, one for each line that it is told, in one of two ways.
 *
 * <p>Standard input is the socket. The arguments are the way, {@code stream} or
 * {@code transfer-to}, the bytes of the array that a stream goes through, and three numbers of
 * descriptors: the file, where commands come from, where answers go to. It says
 * {@code ready VERSION} first; {@code send OFFSET LENGTH} is answered by {@code sent LENGTH CALLS},
 * and whatever goes wrong by {@code failed WHY}, after which it ends. It ends too when there are
 * no more commands.
 *
 * <p>A third way, {@code pack}, sends nothing: the file becomes an archive of this class, so that
 * it needs to be compiled once only.
 */
public final class FileSender {
    private final FileInputStream file;
    private final FileChannel channel;
    private final SocketChannel socket;
    private final OutputStream stream;
    private final byte[] block;
    private final boolean transfers;
    /** Where the stream's next read begins. */
    private long position;
    /** System calls of the message under way, as far as they can be told from here. */
    private long calls;

    private FileSender(String way, int block, String file) throws IOException {
        this.transfers = way.equals("transfer-to");
        if (!transfers && !way.equals("stream")) {
            throw new IOException("there is no way to send that is called " + way);
        }
        this.socket = socket();
        // The same way for every kind of socket: only those of TCP have a stream of their own.
        this.stream = Channels.newOutputStream(socket);
        this.block = new byte[block];
        this.file = new FileInputStream(file);
        this.channel = this.file.getChannel();
    }

    public static void main(String[] words) throws IOException {
        if (words.length != 5) {
            throw new IOException("five arguments are needed: WAY BLOCK FILE COMMANDS ANSWERS");
        }
        try (OutputStream answers = new FileOutputStream(descriptor(words[4]));
                BufferedReader commands = new BufferedReader(new InputStreamReader(
                        new FileInputStream(descriptor(words[3])), StandardCharsets.US_ASCII))) {
            try {
                if (words[0].equals("pack")) {
                    pack(descriptor(words[2]));
                    say(answers, "ready " + System.getProperty("java.version"));
                    return;
                }
                FileSender sender = new FileSender(
                        words[0], Integer.parseInt(words[1]), descriptor(words[2]));
                say(answers, "ready " + System.getProperty("java.version"));
                for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                    say(answers, sender.obey(line));
                }
            } catch (Throwable e) {
                // Standard error is closed once the socket was taken from standard input.
                String why = (e + "").replaceAll("[^ -~]+", " ");
                say(answers, "failed " + why.substring(0, Math.min(why.length(), 200)));
            }
        }
        // What other threads do does not matter any more.
        Runtime.getRuntime().halt(0);
    }

    private static void pack(String file) throws IOException {
        String name = FileSender.class.getName() + ".class";
        try (InputStream compiled = FileSender.class.getResourceAsStream(name);
                ZipOutputStream archive = new ZipOutputStream(new FileOutputStream(file))) {
            archive.putNextEntry(new ZipEntry(name));
            compiled.transferTo(archive);
        }
    }

    private static String descriptor(String number) {
        return "/proc/self/fd/" + Integer.parseInt(number);
    }

    private static void say(OutputStream answers, String line) throws IOException {
        answers.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    private static SocketChannel socket() throws IOException {
        Channel given = System.inheritedChannel();
        if (given instanceof SocketChannel) {
            return (SocketChannel) given;
        }
        throw new IOException("this Java makes no channel of the socket that it was given"
                + " (Unix sockets need Java 16 or newer)");
    }

    private String obey(String line) throws IOException {
        String[] words = line.split(" ");
        if (words.length != 3 || !words[0].equals("send")) {
            throw new IOException("this is no command: " + line);
        }
        long offset = Long.parseLong(words[1]);
        long length = Long.parseLong(words[2]);
        calls = 0;
        if (transfers) {
            transfer(offset, length);
        } else {
            copy(offset, length);
        }
        return "sent " + length + " " + calls;
    }

    private void transfer(long offset, long length) throws IOException {
        long end = offset + length;
        while (offset < end) {
            long moved = channel.transferTo(offset, end - offset, socket);
            calls += 1;
            if (moved == 0) {
                throw new IOException(channel.size() < end
                        ? "the file ends before the request does: was it truncated meanwhile?"
                        : "no byte moved for as long as patience lasts");
            }
            offset += moved;
        }
    }

    private void copy(long offset, long length) throws IOException {
        if (position != offset) {
            channel.position(offset);
            calls += 1;
        }
        position = offset + length;
        while (length > 0) {
            int got = file.read(block, 0, (int) Math.min(block.length, length));
            calls += 2;
            if (got < 0) {
                throw new IOException(
                        "the file ends before the request does: was it truncated meanwhile?");
            }
            stream.write(block, 0, got);
            length -= got;
        }
    }
}
