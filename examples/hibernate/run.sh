# Runs the example with Hibernate 3.6 of Debian: libhibernate3-java, libjavassist-java, libpostgresql-jdbc-java.
jars=
for jar in hibernate-core hibernate-commons-annotations dom4j slf4j-api slf4j-nop commons-collections3 antlr \
    geronimo-jta-1.2-spec geronimo-jpa_2.0_spec javassist postgresql; do
    jars=$jars/usr/share/java/$jar.jar:
done
exec java --add-opens java.base/java.lang=ALL-UNNAMED -cp "$jars" Example.java "$@"
