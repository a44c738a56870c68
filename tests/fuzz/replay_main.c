/* main of the fuzz targets where libFuzzer is not there: runs each file of the folders given through the target once. Fails when a folder
 * is missing or has no file, so that a corpus cannot go away unseen. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    struct stat st;
    uint8_t *data;
    FILE *file;
    size_t size;

    if (stat(path, &st) != 0)
        return -1;
    if (!S_ISREG(st.st_mode))
        return 0;
    file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    /* Exactly as large as the input, so that the address sanitizer sees a read behind its end. */
    data = malloc((size_t)st.st_size > 0 ? (size_t)st.st_size : 1);
    size = data != NULL ? fread(data, 1, (size_t)st.st_size, file) : 0;
    fclose(file);
    if (data == NULL || size != (size_t)st.st_size) {
        free(data);
        return -1;
    }
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int run_folder(const char *folder)
{
    struct dirent *entry;
    DIR *dir = opendir(folder);
    int files = 0;

    if (dir == NULL) {
        perror(folder);
        return -1;
    }
    while ((entry = readdir(dir)) != NULL) {
        char path[4096];
        int ran;

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        ran = run_file(path);
        if (ran < 0) {
            perror(path);
            closedir(dir);
            return -1;
        }
        files += ran;
    }
    closedir(dir);
    if (files == 0)
        fprintf(stderr, "%s: no files\n", folder);
    else
        printf("%s: %d files\n", folder, files);
    return files;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER..\n", argv[0]);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (run_folder(argv[i]) <= 0)
            return 1;
    }
    return 0;
}
